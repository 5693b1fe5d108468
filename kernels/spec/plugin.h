/* plugin.h - plug-ins as kernels of the table. */
#ifndef KERNELS_SPEC_PLUGIN_H
#define KERNELS_SPEC_PLUGIN_H

#include "kernels/attune_plugin.h"
#include "kernels/kernel.h"

enum { MOST_VERSION = 48 };
/* Begins the flags of a plug-in's "binary": -DPLUGIN=617264c1 ... */
#define PLUGIN_FLAG "-DPLUGIN="

/* Makes a plug-in known to the process, before contexts are opened; not while another thread uses
 * the library. The struct must live as long as the process. ATTUNE_INVALID: it is of another ABI,
 * its name is taken or not a name, an axis is not sound. */
enum attune_status attune_register_plugin(const attune_plugin *);

/* The device as a plug-in is told of it. */
attune_plugin_device plugin_device(const struct device_info *);

#endif
