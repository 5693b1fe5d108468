/* plugin_kernel.h - plug-ins as kernels of the table attune_kernels. */
#ifndef HARNESS_PLUGIN_PLUGIN_KERNEL_H
#define HARNESS_PLUGIN_PLUGIN_KERNEL_H

#include "kernels/attune_plugin.h"

struct device_info;

/* Adds the plug-in to attune_kernels, for the rest of the process. The struct and what it points to
 * are not copied. ATTUNE_INVALID: it is NULL, of another ABI or has no name or version, its name is
 * taken, an axis is not sound, a function is missing, or there are MOST_PLUGINS already. */
enum attune_status plugin_register(const attune_plugin *);

/* The places of plug-ins in that table, MOST_PLUGINS of them. */
#define EACH_PLUGIN_PLACE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

enum { MOST_VERSION = 48 };
/* Begins the flags of a plug-in's "binary": -DPLUGIN=617264c1 ... */
#define PLUGIN_FLAG "-DPLUGIN="
/* The flag of a plug-in that rounds q and weights to E4M3, over an E4M3 cache. */
#define PLUGIN_E4M3_MATH "-DE4M3_MATH=1"

/* The device as a plug-in is told of it. */
attune_plugin_device plugin_device(const struct device_info *);

#endif
