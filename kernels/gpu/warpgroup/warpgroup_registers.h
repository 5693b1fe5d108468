/* SPDX-License-Identifier: Apache-2.0 */
/* warpgroup_registers.h - the registers of a thread that copies and of one that computes.
 *
 * A launch gives each thread of a block the same number. Then the copying warpgroup gives back what
 * it does not need, and the teams take it (setmaxnreg). A team that asks for more than there is
 * waits for ever, so each row of the table asserts its sum. In registers of one thread:
 *
 *   teams  blocks an SM  at launch                         of all warpgroups of a block
 *     1         1        248: an SM has 256, a thread 255        2 x 248 = 496
 *     1         2        128                                     2 x 128 = 256
 *     2         1        168: 65536 / 384, a multiple of 8       3 x 168 = 504
 *     3         1        128                                     4 x 128 = 512 */
#ifndef ATTUNE_WARPGROUP_REGISTERS_H
#define ATTUNE_WARPGROUP_REGISTERS_H

#include "warpgroup_shape.h"

#define SM_REGISTERS	 65536
#define MOST_REGISTERS	 248 /* of a thread: setmaxnreg takes up to 256, instructions name 255 */
#define FEWEST_REGISTERS 24  /* that setmaxnreg takes */

DEVICE constexpr int registers_at_launch(int teams, int blocks)
{
	const int each = SM_REGISTERS / (blocks * (1 + teams) * WARPGROUP) / 8 * 8;
	return each < MOST_REGISTERS ? each : MOST_REGISTERS;
}

DEVICE constexpr int is_register_count(int n)
{
	return n % 8 == 0 && n >= FEWEST_REGISTERS && n <= MOST_REGISTERS;
}

/* bits: of an element of the cache; wide: outputs, scores, weights take more than 170 registers */
template <int bits, int teams, int blocks, int wide> struct registers;

#define REGISTERS(bits, teams, blocks, wide, copies, computes)                                     \
	template <> struct registers<bits, teams, blocks, wide> {                                  \
		enum { copying = copies, computing = computes };                                   \
		static_assert(is_register_count(copies) && is_register_count(computes),            \
			      "setmaxnreg takes 24 to 248 in steps of 8");                         \
		static_assert(copies + teams * computes <=                                         \
				      (1 + teams) * registers_at_launch(teams, blocks),            \
			      "a team would wait for registers for ever");                         \
		static_assert(blocks * WARPGROUP * (copies + teams * computes) <= SM_REGISTERS,    \
			      "the blocks of an SM have more registers than it has");              \
	}

// clang-format off
/* A cache of Q's type. Copying threads find items and copy Q.
 *       bits teams blocks wide  copying computing */
REGISTERS(16,   1,    1,    0,     56,     240); /* copying: with 40 it spilled; the sum does not bind */
REGISTERS(16,   1,    2,    0,     48,     208); /* 256 in all */
REGISTERS(16,   2,    1,    0,     56,     224); /* 504 in all */
REGISTERS(16,   2,    1,    1,     40,     232); /* 504; so Q is copied row by row */
REGISTERS(16,   3,    1,    0,     56,     152); /* 512; at most 112 hold the tile */

/* An E4M3 cache. A copying thread has up to 32 registers of loads under way, and converts them.
 *       bits teams blocks wide  copying computing */
REGISTERS( 8,   1,    1,    0,     96,     240); /* the sum does not bind */
REGISTERS( 8,   1,    2,    0,     64,     192); /* 256 in all */
REGISTERS( 8,   2,    1,    0,     88,     208); /* 504 in all: with 96 an H200 waited for ever */
REGISTERS( 8,   3,    1,    0,     80,     144); /* 512 in all */
// clang-format on

#if KV_DTYPE == E4M3
typedef registers<8, TEAMS, BLOCKS_PER_SM, 0> budget;
#else
typedef registers<16, TEAMS, BLOCKS_PER_SM,
		  (TEAMS == 2 && HEAD_SIZE / 2 + TILE_SIZE * 3 / 4 > 170)> budget;
#endif

#endif
