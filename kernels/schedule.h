/* schedule.h - the list of a part's Q blocks that a persistent kernel goes through, in
 * device memory: written there by the kernel `schedule` from query_start, or on the host by
 * schedule_fill, the same words.
 *
 *   int: blocks | segments | variant | tokens | prefix[seq_count + 1]
 *
 * prefix[i] Q blocks, each of `tokens` query tokens, belong to sequences before
 * seq_begin + i; sequences outside [min_query, max_query] have none. prefix[seq_count]
 * = blocks. The kernel cuts keys into as many segments as stand here: its launch knows
 * nothing of the batch but the bounds of the part. `variant` is for who chooses between
 * kernels on the device; others write 0. Device sources include this file too. */
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
