/* SPDX-License-Identifier: Apache-2.0 */
/* family_words.h - what a row of a table of families is written with (struct family, set_writer.h). */
#ifndef HARNESS_GENERATE_FAMILY_WORDS_H
#define HARNESS_GENERATE_FAMILY_WORDS_H

#define K *1024.
#define DECODES(lo, hi, q_lo, q_hi, kv_lo, kv_hi) \
	.decodes = { lo, hi }, .query = { q_lo, q_hi }, .kv = { kv_lo, kv_hi }
#define SPREAD(most, share) .sigma = most, .long_share = share
#define PREFILLS(lo, hi, q_lo, q_hi, context_lo, context_hi) \
	.prefills = { lo, hi }, .tokens = { q_lo, q_hi }, .context = { context_lo, context_hi }

#endif
