/* tune.c - `attune tune`: from what is known to rules of this machine, and no rules that are
 * worse than those in force. The steps, in this order:
 *
 *   survey   what the nearest GPU's races and rules chose, on many scenarios
 *   races    all candidates on the scenarios that are least alike
 *   fill     what the rules learned so far would pick and nobody has measured
 *   gate     those rules and the ones in force side by side, on scenarios that none learned from
 *   judge    the installed rules, those before and the defaults on held-out scenarios
 *
 * All of it ends by one deadline: each step gets its share of the time that is left. What it
 * measures is kept, so that the same command goes on after an interrupt. */
#include "tune.h"
#include "gate.h"
#include "learn.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- what is measured ------------------------------------------------------------------- */

static struct sweep_options sweep_of(struct tune *t, double seconds)
{
	return (struct sweep_options){ .gpu = t->hello.info.gpu,
				       .device = t->device[0],
				       .db = t->here.db,
				       .command = t->o->command,
				       .preset = t->o->preset,
				       .budget_s = seconds,
				       .shards = 1,
				       .seed = 1,
				       .anyway = t->o->anyway,
				       .wall = 1,
				       .sum = &t->sum };
}

static int survey(struct tune *t, double seconds)
{
	struct sweep_options o = sweep_of(t, seconds);
	o.survey = 1;
	o.prior_db = t->here.prior_db;
	o.prior_gpu = t->here.prior_gpu;
	o.also = t->incumbent.choice;
	o.num_also = t->incumbent.num_choices;
	return *t->here.prior_gpu ? tune_sweep(t, &o) : EXIT_DONE;
}

static int races(struct tune *t, double seconds)
{
	struct sweep_options o = sweep_of(t, seconds);
	return tune_sweep(t, &o);
}

/* ---- what is learned ---------------------------------------------------------------------- */

/* The rules by all that is measured so far, as `attune induce` would make them. */
static int learn(struct tune *t)
{
	const double began = now();
	struct learned l;
	if (t->has_fresh)
		forest_free(&t->fresh);
	t->has_fresh = learn_fresh(&l, t->here.db, t->here.gpu, &t->fresh);
	t->learning_s += now() - began;
	return t->has_fresh ? EXIT_DONE : EXIT_CHECK;
}
