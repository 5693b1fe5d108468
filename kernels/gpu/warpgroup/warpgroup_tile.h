/* SPDX-License-Identifier: Apache-2.0 */
/* warpgroup_tile.h - the layout of warpgroup.cu's tiles of Q, K and V in shared memory, and the
 * 64-bit descriptors of it for matrix units. Integer code only: tests run it on the host.
 *
 * A row is a token. A piece is 64 columns or 32: a row of the swizzle, 128 or 64 bytes.
 *
 *   [group of 8 rows][piece][row of the group][columns of the piece]
 *
 *   head size 128:  group 0 | piece 0: rows 0..7 | piece 1: rows 0..7 |     1024 bytes each
 *                   group 1 | piece 0: rows 8..15 | ...
 *
 * A box of a map has whole groups, so pages of 8 tokens or more lie one after the other. Within a
 * piece the 16-byte chunks of a row are permuted: bits 4.. of an address are xored with bits 7..
 * (three bits, or two). Tiles begin at multiples of 1024 bytes. */
#ifndef ATTUNE_WARPGROUP_TILE_H
#define ATTUNE_WARPGROUP_TILE_H

#include "../gpu.h"

/* From a group of 8 rows to the next, and from a piece to the next, in bytes */
#define GROUP_BYTES(head_size) ((head_size) * 16)
#define PIECE_BYTES(piece)     ((piece) * 16)

/* Byte offset in a tile of a row's 16-byte chunk */
DEVICE u32 tile_chunk(int head_size, int piece, int row, int chunk)
{
	const int chunks = piece / 8;
	const u32 at = row / 8 * GROUP_BYTES(head_size) + chunk / chunks * PIECE_BYTES(piece) +
		       row % 8 * piece * 2 + chunk % chunks * 16;
	return at ^ (at >> 7 & (u32)(chunks - 1)) << 4;
}

/* Offset of columns 16 n .. 16 n + 15 of a tile, for a descriptor: the hardware swizzles */
DEVICE u32 tile_columns(int piece, int n)
{
	return n * 16 / piece * PIECE_BYTES(piece) + n * 16 % piece * 2;
}

/* The descriptor of a matrix in shared memory. far: bytes from 8 rows to the next 8; wide: from a
 * piece to the next, used only if the sum runs over rows (V). */
typedef unsigned long long matrix;

DEVICE matrix matrix_at(u32 address, int piece, u32 wide, u32 far)
{
	const unsigned long long swizzle = piece == 64 ? 1 : 2;
	return (unsigned long long)((address & 0x3ffff) >> 4) |
	       (unsigned long long)(wide >> 4) << 16 | (unsigned long long)(far >> 4) << 32 |
	       swizzle << 62;
}

#endif
