/* SPDX-License-Identifier: Apache-2.0 */
/* roofline.h - arguments of roofline.cu and launch.cu in gpu/ceilings, and the layout of the memory
 * that roofline reads. C and device code.
 *
 *   page  32 KiB: 16 tokens of 8 KV heads of 128 values of 2 bytes
 *   item   4 KiB: one head of a page, or an eighth of its bytes; 0..7 of page 0, then of page 1
 *
 * An item lies in pieces of PIECE bytes, one every 8 * PIECE bytes. 256: a token's row, as in
 * layout NHD; 4096: the whole item, as in HND. */
#ifndef ATTUNE_ROOFLINE_H
#define ATTUNE_ROOFLINE_H

enum { ROOFLINE_PAGE = 32768, ROOFLINE_ITEM = 4096, ROOFLINE_ITEMS = 8 /* of a page */ };

struct roofline_args {
	const void *from;
	const int *pages;         /* [num_pages], the order of reads; null: ascending */
	unsigned *sums;           /* [warps of a block][readers]: sum of the words read */
	int num_pages, num_items; /* more items than the pages have: again from the first */
	int asks;                 /* whether to write the sums */
	int units; /* readers: one block on each unit below this number; 0: all blocks */
};

enum { LAUNCH_THREADS = 128 };

struct launch_args {
	const int *runs; /* on the device; *runs 0: do nothing. Null: run */
	int *to;
};

#endif
