/* SPDX-License-Identifier: Apache-2.0 */
/* cdna_device.h - the emulated GPU's memory as a device that runs code objects, compiled as in a
 * sweep (cdna.h, simt/simt_device.h). */
#ifndef TESTS_CDNA_CDNA_DEVICE_H
#define TESTS_CDNA_CDNA_DEVICE_H

#include "kernels/device/device.h"

/* The reason why nothing can be compiled or disassembled here; NULL: it can. */
const char *cdna_why_not(const char *arch);
/* The kernel's code, to be launched by the device as if it were its own. */
enum attune_status cdna_load_kernel(struct code **, const char *arch, const struct kernel *,
				    const char *flags);
enum attune_status cdna_load_source(struct code **, const char *arch, const char *source,
				    const char *flags);

#endif
