/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_list.h - the list of a part's Q blocks over which a persistent kernel loops, in device
 * memory. The kernel `schedule` writes it from query_start; part_schedule() writes the same words
 * on the host.
 *
 *   int: blocks | segments | variant | tokens | prefix[seq_count + 1]
 *
 * prefix[i] Q blocks, each of `tokens` query tokens, belong to sequences before seq_begin + i;
 * sequences outside [min_query, max_query] have none. prefix[seq_count] = blocks. The kernel takes
 * the number of segments from here, since its launch has only the bounds of the part. `variant` is
 * always 0: no kernel reads it. Device sources include this file too. */
#ifndef ATTUNE_SCHEDULE_H
#define ATTUNE_SCHEDULE_H

enum schedule_word {
	SCHEDULE_BLOCKS,
	SCHEDULE_SEGMENTS,
	SCHEDULE_VARIANT,
	SCHEDULE_TOKENS,
	SCHEDULE_PREFIX
};

#define SCHEDULE_WORDS(seq_count) (SCHEDULE_PREFIX + (seq_count) + 1)

#endif
