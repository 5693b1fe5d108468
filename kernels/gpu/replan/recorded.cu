/* recorded.cu - runs one part of a recorded step, as the plan in device memory says: planner.cu has
 * written the number of a body and of segments there (recorded.h). All blocks branch alike, so
 * the branch is free, but the kernel has the registers of its largest body.
 *
 * The grid is fixed, a block an SM with all its shared memory. A block is divided into teams, which
 * are the body's blocks, as many as would run on an SM by themselves:
 *
 *   body of 4 warps, 68 KiB   | team 0 | team 1 | team 2 |     WARPS = 12
 *   body of 2 warps, 36 KiB   | 0 | 1  | 2 | 3  | 4 | 5  |
 *   body of 8 warps, 132 KiB  | team 0          |  idle  |
 *
 * Item i is block i % blocks of segment i / blocks. A team's first item is its own number, with the
 * teams of an SM far apart. Each further item is the next one not taken, fetched while the previous
 * one is computed. With several segments the team that finishes a block's last one merges them, so
 * no second launch is needed. Both counters are 0 again at the end.
 *
 * -DB0=16064042: body 0 has BLOCK_M 16, TILE_SIZE 64, NUM_WARPS 4, NUM_STAGES 2;
 * -DH0=120: KV_HINT 1, Q_HINT 2, GRID_ORDER 0. */
#include "../helpers/reduce.h"
#include "../../recorded.h"

#ifndef B0
#define B0 16064042
#endif

#define PARTIALS   1
#define BLOCK_M	   (BODY / 1000000)
#define TILE_SIZE  (BODY / 1000 % 1000)
#define NUM_WARPS  (BODY / 10 % 100)
#define NUM_STAGES (BODY % 10)
#define KV_HINT	   (HINTS / 100)
#define Q_HINT	   (HINTS / 10 % 10)
#define GRID_ORDER (HINTS % 10)
#define TEAM	   (threadIdx.x / THREADS)
#define BLOCK_THREAD (threadIdx.x % THREADS)
#define BLOCK_BARRIER() barrier(1 + TEAM, THREADS)

#ifdef B0
#define BODY B0
#ifdef H0
#define HINTS H0
#else
#define HINTS 0
#endif
namespace body0
{
#include "recorded_body.inc"
}
#undef BODY
#undef HINTS
#endif
#ifdef B1
#define BODY B1
#ifdef H1
#define HINTS H1
#else
#define HINTS 0
#endif
namespace body1
{
#include "recorded_body.inc"
}
#undef BODY
#undef HINTS
#endif
#ifdef B2
#define BODY B2
#ifdef H2
#define HINTS H2
#else
#define HINTS 0
#endif
namespace body2
{
#include "recorded_body.inc"
}
#undef BODY
#undef HINTS
#endif
#ifdef B3
#define BODY B3
#ifdef H3
#define HINTS H3
#else
#define HINTS 0
#endif
namespace body3
{
#include "recorded_body.inc"
}
#undef BODY
#undef HINTS
#endif
#ifdef B4
#define BODY B4
#ifdef H4
#define HINTS H4
#else
#define HINTS 0
#endif
namespace body4
{
#include "recorded_body.inc"
}
#undef BODY
#undef HINTS
#endif
#ifdef B5
#define BODY B5
#ifdef H5
#define HINTS H5
#else
#define HINTS 0
#endif
namespace body5
{
#include "recorded_body.inc"
}
#undef BODY
#undef HINTS
#endif
#ifdef B6
#define BODY B6
#ifdef H6
#define HINTS H6
#else
#define HINTS 0
#endif
namespace body6
{
#include "recorded_body.inc"
}
#undef BODY
#undef HINTS
#endif
#ifdef B7
#define BODY B7
#ifdef H7
#define HINTS H7
#else
#define HINTS 0
#endif
namespace body7
{
#include "recorded_body.inc"
}
#undef BODY
#undef HINTS
#endif
#ifdef B8
#define BODY B8
#ifdef H8
#define HINTS H8
#else
#define HINTS 0
#endif
namespace body8
{
#include "recorded_body.inc"
}
#undef BODY
#undef HINTS
#endif
#ifdef B9
#define BODY B9
#ifdef H9
#define HINTS H9
#else
#define HINTS 0
#endif
namespace body9
{
#include "recorded_body.inc"
}
#undef BODY
#undef HINTS
#endif
#ifdef B10
#define BODY B10
#ifdef H10
#define HINTS H10
#else
#define HINTS 0
#endif
namespace body10
{
#include "recorded_body.inc"
}
#undef BODY
#undef HINTS
#endif
#ifdef B11
#define BODY B11
#ifdef H11
#define HINTS H11
#else
#define HINTS 0
#endif
namespace body11
{
#include "recorded_body.inc"
}
#undef BODY
#undef HINTS
#endif

/* a.schedule: the part's entry in the plan. a.scratch: its counters. a.partial_ml: room for
 * partials of any plan within the bounds. */
KERNEL(WARPS * WARP) ENTRY(const attune_args given)
{
	extern __shared__ __align__(1024) unsigned char memory[];
	recorded_part *shared_part = (recorded_part *)given.schedule;
	int *counters = (int *)given.scratch;
	const recorded_part p = *shared_part;
	attune_args a = given;
	a.seq_begin = p.seq_begin;
	a.seq_count = p.seq_count;
	a.min_query = p.min_query;
	a.max_query = p.max_query;
	a.segments = p.segments;
	a.partial_out = a.partial_ml + (long long)p.seq_count * p.max_query * a.num_query_heads *
					       p.segments * 2;
	if (p.choice < 0)
		return;
	switch (p.body) {
#ifdef B0
	case 0: body0::work(a, p, shared_part, counters, memory); break;
#endif
#ifdef B1
	case 1: body1::work(a, p, shared_part, counters, memory); break;
#endif
#ifdef B2
	case 2: body2::work(a, p, shared_part, counters, memory); break;
#endif
#ifdef B3
	case 3: body3::work(a, p, shared_part, counters, memory); break;
#endif
#ifdef B4
	case 4: body4::work(a, p, shared_part, counters, memory); break;
#endif
#ifdef B5
	case 5: body5::work(a, p, shared_part, counters, memory); break;
#endif
#ifdef B6
	case 6: body6::work(a, p, shared_part, counters, memory); break;
#endif
#ifdef B7
	case 7: body7::work(a, p, shared_part, counters, memory); break;
#endif
#ifdef B8
	case 8: body8::work(a, p, shared_part, counters, memory); break;
#endif
#ifdef B9
	case 9: body9::work(a, p, shared_part, counters, memory); break;
#endif
#ifdef B10
	case 10: body10::work(a, p, shared_part, counters, memory); break;
#endif
#ifdef B11
	case 11: body11::work(a, p, shared_part, counters, memory); break;
#endif
	}
}
