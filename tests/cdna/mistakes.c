/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes.c - changes code after the compiler, for tests that must notice it. */
#include "machine.h"
#include <string.h>

static const struct cdna_mutant *mutant;
static int changed;

void cdna_mutate(const struct cdna_mutant *m)
{
	mutant = m;
	changed = 0;
}

int cdna_mutations(void)
{
	return changed;
}

static void change(struct instruction *in)
{
	const struct operand first = in->o[1];
	const char *name = mutant->change == CDNA_DROP ? "s_nop" : mutant->other;
	switch (mutant->change) {
	case CDNA_DROP:
	case CDNA_RENAME: in->op = find_op(name, strlen(name)); break;
	case CDNA_SWAP:
		in->o[1] = in->o[2];
		in->o[2] = first;
		break;
	case CDNA_OFFSET: in->m.offset[0] += mutant->offset; break;
	}
}

void make_mistakes(struct cdna_code *c)
{
	int seen = 0;
	for (int i = 0; mutant && i < c->n; i++) {
		if (strcmp(c->v[i].op->name, mutant->op) || (++seen != mutant->nth && mutant->nth))
			continue;
		change(&c->v[i]);
		changed++;
	}
}
