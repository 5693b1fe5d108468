/* SPDX-License-Identifier: Apache-2.0 */
/* deal.h - deals the keys of a batch evenly to the blocks of a fixed grid, for ring_list.cu and, on
 * the host, for tests.
 *
 * An item is a Q block and a KV head. It has `start` units, the cost of its start, and one unit for
 * each of its tiles, at least one. Items lie one after the other:
 *
 *   units    | S S t t t t t t t | S S t | S S t t t t t t t t t t t t |
 *   blocks   |      0      |      1      |      2      |       3       |
 *
 * Lengths alone decide which block has which tiles. A tile belongs to one block; blocks between the
 * first and the last of an item have only tiles of that item. So a block shares at most two items
 * with others, its first and its last, and their partials have fixed slots for any batch: 2 * block
 * for an item that another block began, 2 * block + 1 for an item that it began itself. */
#ifndef ATTUNE_DEAL_H
#define ATTUNE_DEAL_H

#include "../../attune_features.h"

struct deal {
	unsigned blocks;     /* with any units */
	unsigned each, more; /* units of a block; the first `more` blocks have one more */
};

/* least: fewest units of a block, unless there is only one block */
BOTH_SIDES struct deal deal_units(unsigned units, unsigned blocks, unsigned least)
{
	const unsigned most = units / least;
	struct deal d;
	d.blocks = most < blocks ? most : blocks;
	d.blocks = d.blocks ? d.blocks : 1;
	d.each = units / d.blocks;
	d.more = units - d.each * d.blocks;
	return d;
}

/* The first unit of a block; the end of all units if it has none. */
BOTH_SIDES unsigned deal_begin(const struct deal *d, unsigned block)
{
	block = block < d->blocks ? block : d->blocks;
	return block * d->each + (block < d->more ? block : d->more);
}

/* The block of a unit. */
BOTH_SIDES unsigned deal_block(const struct deal *d, unsigned unit)
{
	const unsigned longer = d->more * (d->each + 1);
	return unit < longer ? unit / (d->each + 1) : d->more + (unit - longer) / d->each;
}

/* A block's share of an item. */
struct stretch {
	unsigned first, tiles; /* tiles 0: only units of its start, no work */
	unsigned owner, parts; /* the first block with tiles of the item; number of such blocks */
	unsigned next;         /* the unit that follows */
};

/* The block's share from `unit` on, to the end of the item or of the block's units. begin: the
 * item's first unit. A block with all tiles of an item needs no division, which is slow on a
 * GPU. */
BOTH_SIDES struct stretch deal_stretch(const struct deal *d, unsigned block, unsigned begin,
				       unsigned start, unsigned tiles, unsigned unit)
{
	const unsigned tile0 = begin + start, last = tile0 + tiles, end = deal_begin(d, block + 1);
	struct stretch s;
	s.next = end < last ? end : last;
	s.first = unit > tile0 ? unit - tile0 : 0;
	s.tiles = s.next > tile0 ? s.next - tile0 - s.first : 0;
	s.owner = unit <= tile0 && tile0 < end ? block : deal_block(d, tile0);
	s.parts = (last <= end ? block : deal_block(d, last - 1)) - s.owner + 1;
	return s;
}

/* The slot of a block's partial of an item that several blocks share. */
BOTH_SIDES unsigned deal_slot(unsigned block, unsigned owner)
{
	return 2 * block + (block == owner);
}

#endif
