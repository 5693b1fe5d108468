/* cdna_device.h - code objects, compiled as a sweep does, on the emulated GPU's
 * memory: see cdna.h and simt/simt_device.h. */
#ifndef TESTS_CDNA_CDNA_DEVICE_H
#define TESTS_CDNA_CDNA_DEVICE_H

#include "kernels/device/device.h"

/* Why none can be compiled or disassembled here; NULL: they can. */
const char *cdna_why_not(const char *arch);
/* The kernel's code, to be launched by the device as if it were its own. */
enum attune_status cdna_load_kernel(struct code **, const char *arch, const struct kernel *,
				    const char *flags);
enum attune_status cdna_load_source(struct code **, const char *arch, const char *source,
				    const char *flags);

#endif
