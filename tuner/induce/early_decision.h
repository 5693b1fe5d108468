/* SPDX-License-Identifier: Apache-2.0 */
/* early_decision.h - learns the early decision: which launches begin before their predecessor has
 * finished, where the caller allows it (ATTUNE_START_EARLY). */
#ifndef TUNER_INDUCE_EARLY_DECISION_H
#define TUNER_INDUCE_EARLY_DECISION_H

struct data;
struct forest;
struct matrix;

/* Makes the early tree; SAYS_OWN if nothing was measured. 0 without memory. */
int fit_early(struct forest *, const struct data *, int leaves);

#endif
