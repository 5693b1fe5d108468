/* SPDX-License-Identifier: Apache-2.0 */
/* maps.h - the interface of maps.c for the emulated device. */
#ifndef TESTS_SIMT_MAPS_H
#define TESTS_SIMT_MAPS_H

#include "simt_device.h"

enum attune_status simt_make_map(struct device *, struct attune_map *, const struct map_view *);

#endif
