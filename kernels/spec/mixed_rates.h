/* SPDX-License-Identifier: Apache-2.0 */
/* mixed_rates.h - the rates by which mixed.h estimates a mixed batch: those that its file was made
 * with, or the row MIXED of a generated header. */
#ifndef ATTUNE_MIXED_RATES_H
#define ATTUNE_MIXED_RATES_H

/* Flops and bytes are of a ns. All rates are 1 to MOST_RATE. */
enum { MOST_RATE = 1000000 };
struct mixed_rates {
	int unit_flops; /* of a unit's prefills, by warpgroups */
	int unit_reads; /* bytes of a unit's decodes; each stream costs stream_ns more */
	int stream_ns;
	int half_reads; /* most bytes of half of the units together */
	int all_reads;  /* most bytes of more units, when some GPCs have more of them than others */
	int start_ns;   /* before decodes read */
	int leave_ns;   /* from the end of the decodes to the first product */
	int segment_ns; /* a segment's start and its share of the merge */
};

#endif
