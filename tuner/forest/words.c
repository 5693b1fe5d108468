/* SPDX-License-Identifier: Apache-2.0 */
/* words.c - prints choices and actions of leaves, for headers and for people. */
#include "forest.h"
#include "kernels/spec/kernel.h"
#include <stdio.h>

void choice_words(const struct choice *c, char text[MAX_CHOICE_TEXT])
{
	const int n = snprintf(text, MAX_CHOICE_TEXT, "%s ", c->kernel->name);
	config_text(text + n, MAX_CHOICE_TEXT - (size_t)n, &c->config, c->kernel->space);
}

static const char *const early_words[MOST_EARLY + 1] = { "in turn", "EARLY=1", "EARLY=2" };

void says_words(const struct forest *f, enum decision decision, int action,
		char text[MAX_CHOICE_TEXT])
{
	if (decision == DECIDE_EARLY)
		snprintf(text, MAX_CHOICE_TEXT, "%s",
			 action == SAYS_OWN ? "as the choice has it" : early_words[action]);
	else if (decision == DECIDE_OVERLAP && says_spares(action))
		snprintf(text, MAX_CHOICE_TEXT, "side by side, with %d units left to the decodes",
			 says_spares(action));
	else if (decision == DECIDE_OVERLAP && action < 0)
		snprintf(text, MAX_CHOICE_TEXT, "%s",
			 action == SAYS_STREAMS      ? "side by side"
			 : action == SAYS_ONE_LAUNCH ? "in one launch by the prefills' choice"
						     : "one after the other");
	else if (action < 0)
		snprintf(text, MAX_CHOICE_TEXT, "the defaults");
	else
		choice_words(&f->choice[action], text);
}
