/* plugin.h - plug-ins as kernels of the table. */
#ifndef KERNELS_SPEC_PLUGIN_H
#define KERNELS_SPEC_PLUGIN_H

#include "kernels/attune_plugin.h"
#include "kernels/kernel.h"

/* The device as a plug-in is told of it, with ordinal 0. */
attune_plugin_device plugin_device(const struct device_info *);

#endif
