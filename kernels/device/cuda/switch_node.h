/* switch_node.h - a SWITCH node in a graph that is being captured. */
#ifndef KERNELS_DEVICE_CUDA_SWITCH_NODE_H
#define KERNELS_DEVICE_CUDA_SWITCH_NODE_H

#include "api.h"
#include "kernels/device/device.h"

/* Whether the driver has the calls; it may still refuse. */
int switch_is_known(const struct cuda_api *);
/* With the device's context current; errors are the driver's. failed: the status of decide or
 * of a body, whose message is kept. */
int switch_record(const struct cuda_api *, void *ctx, void *stream, const struct graph_switch *,
		  enum attune_status *failed);

#endif
