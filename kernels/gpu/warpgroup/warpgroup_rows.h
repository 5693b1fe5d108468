/* SPDX-License-Identifier: Apache-2.0 */
/* warpgroup_rows.h - the work of a computing warpgroup of warpgroup.cu: 64 rows of an item, from
 * queries to outputs. */
#ifndef ATTUNE_WARPGROUP_ROWS_H
#define ATTUNE_WARPGROUP_ROWS_H

#include "warpgroup_out.h"
#include "warpgroup_products.h"
#include "warpgroup_scores.h"
#include "warpgroup_team.h"

/* ---- products --------------------------------------------------------------------------- */

/* Issues s = Q K^T for the tile's first KEYS; does not wait */
template <int KEYS> DEVICE void issue_scores(team &t, scores &s)
{
	const matrix q = t.queries + t.q.at * (Q_BYTES / 16), k = t.keys + t.k.at * (TILE_BYTES / 16);
	settle(s);
	products_begin();
	UNROLL for (int n = 0; n < HEAD_SIZE / 16; n++)
		product<KEYS>::of_shared((float(&)[KEYS / 2])s, q + tile_columns(PIECE, n) / 16,
					 k + tile_columns(PIECE, n) / 16, n > 0);
	products_commit();
}

/* Issues o += P V for the tile's first KEYS; does not wait */
template <int KEYS> DEVICE void issue_outputs(team &t)
{
	const matrix v = t.values + t.v.at * (TILE_BYTES / 16);
	settle(t.o);
	settle(t.p);
	products_begin();
	UNROLL for (int n = 0; n < KEYS / 16; n++)
		product<HEAD_SIZE>::of_held(t.o, t.p + 4 * n, v + n * (2 * GROUP_BYTES(HEAD_SIZE) / 16));
	products_commit();
}

/* The team is done with a tile. */
DEVICE void leave_tile(const team &t, unsigned long long *empty, const cursor &c)
{
	if (is_first(t))
		gate_come(gate(empty, c.at));
}

DEVICE void release(const team &t, unsigned long long *empty, cursor &c)
{
	leave_tile(t, empty, c);
	advance(c, NUM_STAGES);
}

/* ---- an item ---------------------------------------------------------------------------- */

/* Writes zeros to rows from .. to - 1 of the next tile of V */
DEVICE void clear_values(const team &t, int from, int to)
{
	if (from >= to)
		return;
	gate_wait(gate(t.h->v_full, t.v.at), t.v.parity);
	for (int n = threadIdx.x % WARPGROUP; n < (to - from) * CHUNKS; n += WARPGROUP) {
		const u32 at = tile_chunk(HEAD_SIZE, PIECE, from + n / CHUNKS, n % CHUNKS);
		shared_clear16(t.ring + t.v.at * TILE_BYTES + at);
	}
	shared_written();
	barrier(OWN(t.number), WARPGROUP);
}

/* Clears the keys beyond the sequence in the box of the item's last key. With E4M3 the copying
 * threads have done it: there `to` is 0, but the compiler (nvcc 13.0) must not know, since without
 * the branch it spills up to 120 bytes more. */
DEVICE void clear_beyond(const attune_args &a, const team &t)
{
	const int box = box_of(a), tile = (t.i.last - 1) * TILE_SIZE;
	clear_values(t, t.i.seq_len - tile,
		     KV_DTYPE == E4M3 ? 0 : (t.i.end - tile + box - 1) / box * box);
}

/* Clears the keys before the sequence's first live key in its box, when the last tile is next. Few
 * items have such keys; reading the item from shared memory saves the others a register. */
DEVICE void clear_before(const attune_args &a, const team &t)
{
	if (KV_DTYPE == E4M3 || !a.window)
		return;
	const int box = box_of(a), to = t.h->slot[t.q.at].dead - t.i.first * TILE_SIZE;
	if (to > 0)
		clear_values(t, to / box * box, to);
}

DEVICE void clear_outputs(team &t)
{
	UNROLL for (int n = 0; n < HEAD_SIZE / 2; n++)
		t.o[n] = 0;
}

/* The first tile: there are no weights for V yet. */
DEVICE void first_step(const attune_args &a, team &t)
{
	scores s;
	gate_wait(gate(t.h->k_full, t.k.at), t.k.parity);
	issue_scores<TILE_SIZE>(t, s);
	put_held(t);
	products_wait<0>();
	settle(s);
	clear_outputs(t);
	release(t, t.h->k_empty, t.k);
	weigh<1, TILE_SIZE>(a, t, s, t.i.last - 1);
	pack(t.p, s);
	clear_beyond(a, t);
}

/* The first tile, with KEYS keys, and the second, which all rows see whole. There are no outputs
 * yet, so registers hold the scores of both, and the second's are computed during the first's
 * softmax. The first's use the outputs' registers: by itself the compiler (nvcc 13.0) finds no
 * room. */
template <int KEYS> DEVICE void first_two(const attune_args &a, team &t, int second)
{
	const cursor first = t.k;
	float own[TILE_SIZE > HEAD_SIZE ? TILE_SIZE / 2 : 1];
	scores &s = TILE_SIZE > HEAD_SIZE ? (scores &)own : (scores &)t.o, next;
	gate_wait(gate(t.h->k_full, t.k.at), t.k.parity);
	issue_scores<KEYS>(t, s);
	put_held(t);
	advance(t.k, NUM_STAGES);
	gate_wait(gate(t.h->k_full, t.k.at), t.k.parity);
	take_turn(t);
	issue_scores<TILE_SIZE>(t, next);
	pass_turn(t);
	products_wait<1>();
	settle(s);
	leave_tile(t, t.h->k_empty, first);
	weigh<2, KEYS>(a, t, s, second + 1);
	pack(t.p, s);
	clear_beyond(a, t);
	gate_wait(gate(t.h->v_full, t.v.at), t.v.parity);
	clear_outputs(t);
	issue_outputs<KEYS>(t);
	products_wait<1>();
	settle(next);
	release(t, t.h->k_empty, t.k);
	weigh<0, TILE_SIZE>(a, t, next, second);
	products_wait<0>();
	settle(t.o);
	release(t, t.h->v_empty, t.v);
	pack(t.p, next);
	UNROLL for (int n = 0; n < HEAD_SIZE / 2; n++)
		t.o[n] *= t.fade[ROW_OF(n)];
}

/* Scores of this tile, outputs of the previous one. */
template <int EDGE> DEVICE void step(const attune_args &a, team &t, int tile)
{
	scores s;
	gate_wait(gate(t.h->k_full, t.k.at), t.k.parity);
	take_turn(t);
	issue_scores<TILE_SIZE>(t, s);
	gate_wait(gate(t.h->v_full, t.v.at), t.v.parity);
	issue_outputs<TILE_SIZE>(t);
	pass_turn(t);
	products_wait<1>();
	settle(s);
	release(t, t.h->k_empty, t.k);
	weigh<EDGE, TILE_SIZE>(a, t, s, tile);
	products_wait<0>();
	settle(t.o);
	release(t, t.h->v_empty, t.v);
	pack(t.p, s);
	UNROLL for (int n = 0; n < HEAD_SIZE / 2; n++)
		t.o[n] *= t.fade[ROW_OF(n)];
}

DEVICE void last_step(const attune_args &a, team &t)
{
	clear_before(a, t);
	gate_wait(gate(t.h->v_full, t.v.at), t.v.parity);
	issue_outputs<TILE_SIZE>(t);
	products_wait<0>();
	settle(t.o);
	release(t, t.h->v_empty, t.v);
}

/* All 64 rows see tiles inner .. outer - 1 whole, and scores need no softcap or ALiBi there. */
DEVICE void find_inner(const attune_args &a, const team &t, int &inner, int &outer)
{
	const int lead = place_of(a, t.number * TEAM_ROWS).token, top = t.i.position + lead;
	const int tokens = place_of(a, t.number * TEAM_ROWS + TEAM_ROWS - 1).token - lead + 1;
	const int hidden = a.window ? max(top + tokens - a.window, 0) : 0;
	const int seen = a.causal ? max(min(top + 1, t.i.seq_len), 0) : t.i.seq_len;
	inner = max((hidden + TILE_SIZE - 1) / TILE_SIZE, t.i.first);
	outer = t.bent ? inner : seen / TILE_SIZE;
}

/* If a team's rows see no key of the first tile's second half, both products leave it out, if the
 * next tile is seen whole. At head sizes 64 and 96 the compiler (nvcc 13.0) would then wait for
 * each product. */
#define HALVES (TILE_SIZE == 128 && HEAD_SIZE % 128 == 0)
#define HALF   (HALVES ? TILE_SIZE / 2 : TILE_SIZE)

DEVICE int sees_half(const attune_args &a, const team &t)
{
	const int last = t.i.position + place_of(a, t.number * TEAM_ROWS + TEAM_ROWS - 1).token;
	return HALVES && a.causal && last < (t.i.last - 1) * TILE_SIZE + HALF;
}

DEVICE void attend(const attune_args &a, team &t)
{
	int inner, outer, tile = t.i.last - 2;
	find_inner(a, t, inner, outer);
	const int two = tile < outer && tile >= inner; /* which is not below the first */
	if (two && sees_half(a, t))
		first_two<HALF>(a, t, tile);
	else if (two)
		first_two<TILE_SIZE>(a, t, tile);
	else
		first_step(a, t);
	tile -= two;
	for (; tile >= t.i.first; tile--) {
		_Pragma("unroll 1") for (; tile < outer && tile >= inner; tile--)
			step<0>(a, t, tile);
		if (tile < t.i.first)
			break;
		step<1>(a, t, tile);
	}
	last_step(a, t);
}

DEVICE void find_units(const attune_args &a, team &t)
{
	UNROLL for (int r = 0; r < 2; r++)
		t.unit[r] = t.bent ? 1.f : scale_of(a, t, r) * LOG2E;
}

DEVICE void start_item(const attune_args &a, team &t)
{
	find_units(a, t);
	UNROLL for (int r = 0; r < 2; r++)
	{
		t.top[r] = MINUS_INF;
		t.sum[r] = 0;
	}
}

/* Q's buffer and its slot may be overwritten. */
DEVICE void release_queries(const attune_args &a, team &t)
{
	__syncwarp();
	if (!lane_id())
		gate_come(gate(t.h->q_empty, t.q.at));
	advance(t.q, a.option[Q_BUFFERS]);
}

/* Loop bounds are broadcast from one lane, so that the compiler knows that they are uniform: places
 * in rings and descriptors then need no registers of each thread. */
DEVICE int take_item(team &t)
{
	gate_wait(gate(t.h->q_full, t.q.at), t.q.parity);
	t.i = t.h->slot[t.q.at];
	t.i.rows = shfl(t.i.rows, 0);
	t.i.position = shfl(t.i.position, 0);
	t.i.seq_len = shfl(t.i.seq_len, 0);
	t.i.end = shfl(t.i.end, 0);
	t.i.first = shfl(t.i.first, 0);
	t.i.last = shfl(t.i.last, 0);
	t.q.at = shfl((int)t.q.at, 0);
	return t.i.rows;
}

/* put: writes an item's results */
template <void (*put)(const attune_call &, team &)>
DEVICE void compute(const attune_call &c, header &h, u32 keys, u32 values, u32 queries, int number)
{
	const attune_args &a = c.args;
	team t;
	t.number = number;
	t.row = number * TEAM_ROWS + threadIdx.x % WARPGROUP / WARP * 16 + lane_id() / 4;
	t.queries = matrix_at(queries + number * TEAM_ROWS * HEAD_SIZE * 2, PIECE, 16,
			      GROUP_BYTES(HEAD_SIZE));
	t.keys = matrix_at(keys, PIECE, 16, GROUP_BYTES(HEAD_SIZE));
	t.values = matrix_at(values, PIECE, PIECE_BYTES(PIECE), GROUP_BYTES(HEAD_SIZE));
	t.ring = values;
	t.h = &h;
	t.q = t.k = t.v = cursor{ 0, 0 };
	t.bent = a.softcap > 0 || a.alibi_slopes;
	t.held.rows = 0;
	if (number == TEAMS - 1)
		pass_turn(t);
	while (take_item(t)) {
		start_item(a, t);
		if (t.i.last > t.i.first)
			attend(a, t);
		else {
			put_held(t);
			clear_outputs(t);
		}
		t.value = value_scale(t);
		release_queries(a, t);
		put(c, t);
	}
	put_held(t);
}

#endif
