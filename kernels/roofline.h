/* roofline.h - between gpu/roofline.cu, gpu/launch.cu and who launches them: what is read, in
 * which pieces. C and device code.
 *
 *   page  32 KiB: 16 tokens of 8 KV heads of 128 values of 2 bytes
 *   item   4 KiB: one head of a page, or an eighth of its bytes; 0..7 of page 0, then of page 1
 *
 * Of an item PIECE bytes lie together, one piece every 8 * PIECE bytes: 256, a token's row as
 * layout NHD has it; 4096, all of it, as HND has. */
#ifndef ATTUNE_ROOFLINE_H
#define ATTUNE_ROOFLINE_H

enum { ROOFLINE_PAGE = 32768, ROOFLINE_ITEM = 4096, ROOFLINE_ITEMS = 8 /* of a page */ };

struct roofline_args {
	const void *from;
	const int *pages;         /* [num_pages], in which order; null: as they lie */
	unsigned *sums;           /* [warps of a block][readers]: of all words that each has read */
	int num_pages, num_items; /* more items than the pages have: over and over */
	int asks;                 /* whether the sums are written */
	int units; /* readers: the blocks on units below that number, one on each; 0: all blocks */
};

enum { LAUNCH_THREADS = 128 };

struct launch_args {
	const int *runs; /* on the device; 0: this launch does nothing. Null: nobody asks */
	int *to;
};

#endif
