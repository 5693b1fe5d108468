/* SPDX-License-Identifier: Apache-2.0 */
/* warpgroup_copies.h - the copying threads, by the cache's type, and the gates that they and the
 * teams pass. */
#ifndef ATTUNE_WARPGROUP_COPIES_H
#define ATTUNE_WARPGROUP_COPIES_H

#include "warpgroup_shape.h"
#if KV_DTYPE == E4M3
#include "warpgroup_e4m3.h"
#else
#include "warpgroup_16bit.h"
#endif

DEVICE void open_gates(header &h)
{
	for (int i = 0; i < NUM_STAGES; i++) {
		gate_init(gate(h.k_full, i), COMERS_TO_TILES);
		gate_init(gate(h.v_full, i), COMERS_TO_TILES);
		gate_init(gate(h.k_empty, i), TEAMS);
		gate_init(gate(h.v_empty, i), TEAMS);
	}
	for (int i = 0; i < 2; i++) {
		gate_init(gate(h.q_full, i), COMERS_TO_QUERIES);
		gate_init(gate(h.q_empty, i), TEAMS * TEAM_WARPS);
	}
	gates_ready();
}

#endif
