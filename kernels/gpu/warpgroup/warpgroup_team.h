/* SPDX-License-Identifier: Apache-2.0 */
/* warpgroup_team.h - a team: a warpgroup that computes 64 rows of an item; what each of its threads
 * holds, its barriers and its scales. */
#ifndef ATTUNE_WARPGROUP_TEAM_H
#define ATTUNE_WARPGROUP_TEAM_H

#include "warpgroup_gates.h"
#include "warpgroup_tile.h"

/* A thread's part: rows g and g + 8 of its warp, columns as in warpgroup_products.h */
typedef float scores[TILE_SIZE / 2];
typedef u32 weights[TILE_SIZE / 4];
typedef float outputs[HEAD_SIZE / 2];

struct team {
	int number, row; /* row: the first of this thread's two, in the item */
	matrix queries, keys, values; /* the first of each; add bytes / 16 for others */
	u32 ring; /* of V */
	header *h;
	item i;
	cursor q, k, v;
	int bent; /* the layer has softcap or ALiBi */
	float unit[2]; /* log2 units of a score */
	float value; /* an extra factor of its outputs */
	outputs o;
	weights p;
	float top[2], sum[2], fade[2];
	struct {
		u32 x[2][HEAD_SIZE / 8];
		half16 *to[2];
		int rows; /* 0: nothing is held */
	} held; /* outputs of the previous item, stored while scores are under way */
};

/* Barriers: 0 is the block's; then one a team for turns, then one of each team. */
#define TURN(team) (1 + (team))
#define OWN(team)  (1 + TEAMS + (team))

DEVICE int is_first(const team &)
{
	return threadIdx.x % WARPGROUP == 0;
}

/* Waits for the turn to issue products */
DEVICE void take_turn(const team &t)
{
	if (TURNS)
		barrier(TURN(t.number), 2 * WARPGROUP);
}

DEVICE void pass_turn(const team &t)
{
	if (TURNS)
		barrier_come(TURN(t.number == TEAMS - 1 ? 0 : t.number + 1), 2 * WARPGROUP);
}

/* ---- scales of an E4M3 cache, computed as F16 -------------------------------------------- */

/* They are in the queries' slot, until it is released. */
#if KV_DTYPE == E4M3
DEVICE float scale_of(const attune_args &a, const team &t, int r)
{
	return a.scale * t.h->scale[t.q.at].row[t.row + 8 * r];
}

DEVICE float value_scale(const team &t)
{
	return t.h->scale[t.q.at].value;
}

DEVICE u32 pack_weights(float lo, float hi)
{
	return pack2_f16(lo, hi);
}
#else
/* The factor of a row's products */
DEVICE float scale_of(const attune_args &a, const team &, int)
{
	return a.scale;
}

DEVICE float value_scale(const team &)
{
	return 1;
}

DEVICE u32 pack_weights(float lo, float hi)
{
	return pack2(lo, hi);
}
#endif

#endif
