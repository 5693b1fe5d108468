/* deal.h - dealing the keys of a batch evenly to the blocks of a fixed grid, for ring_list.cu; the
 * same lines on the host, for those who want to know.
 *
 * An item is a Q block and a KV head. It counts `start` units, for what its start costs, and one
 * for each of its tiles, of which it has one at least. Items lie one after the other:
 *
 *   units    | S S t t t t t t t | S S t | S S t t t t t t t t t t t t |
 *   blocks   |      0      |      1      |      2      |       3       |
 *
 * Nothing but lengths decides which block has which tiles. A tile is one block's; blocks
 * between the first and the last of an item's have nothing but tiles of it. So a block cuts two
 * items at most, the one that it begins with and the one that it ends with, and what it found
 * of these has a place of its own, whatever the batch: slot 2 * block of an item that another block
 * began, 2 * block + 1 of one that it begins itself. */
#ifndef ATTUNE_DEAL_H
#define ATTUNE_DEAL_H

#include "attune_features.h"

struct deal {
	unsigned blocks;     /* that are dealt any */
	unsigned each, more; /* units of a block; so many have one more, the first */
};

/* least: units that a block is to have, as long as there is one block */
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

/* The first unit of a block; where it is dealt none, the end of all. */
BOTH_SIDES unsigned deal_begin(const struct deal *d, unsigned block)
{
	block = block < d->blocks ? block : d->blocks;
	return block * d->each + (block < d->more ? block : d->more);
}

/* The block that a unit is dealt to. */
BOTH_SIDES unsigned deal_block(const struct deal *d, unsigned unit)
{
	const unsigned longer = d->more * (d->each + 1);
	return unit < longer ? unit / (d->each + 1) : d->more + (unit - longer) / d->each;
}

/* What a block has of an item. */
struct stretch {
	unsigned first, tiles; /* tiles 0: its start alone, which is nothing to do */
	unsigned owner, parts; /* the first block that has tiles of the item; how many have */
	unsigned next;         /* the unit that follows */
};

/* Of the block from its unit `unit` on, to the end of the item or of the block's units. begin: the
 * item's first. Where it has all tiles there is nothing to divide, which takes long on a GPU. */
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

/* Where a block leaves what it found of an item that several have. */
BOTH_SIDES unsigned deal_slot(unsigned block, unsigned owner)
{
	return 2 * block + (block == owner);
}

#endif
