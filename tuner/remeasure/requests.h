/* requests.h - cells that are to be measured, on their way to the harness (requests.c); and the
 * second pass (confirm.c). */
#ifndef TUNER_REMEASURE_REQUESTS_H
#define TUNER_REMEASURE_REQUESTS_H

#include "kernels/attune.h"
#include "kernels/kernel.h"

struct choice;
struct data;
struct forest;
struct decided;
struct measured;
struct scenario_list;
struct sweep_options;
struct wish;

struct wishes {
	struct wish *v;
	int n, room, failed; /* failed: out of memory */
};
/* Each once. What nothing runs is no wish. `scenario`: of the list that is measured. */
void wish_part(struct wishes *, int scenario, enum phase, const struct choice *);
void wish_plan(struct wishes *, int scenario, const struct choice *prefill,
	       const struct choice *decode, enum attune_how);
/* The same cell or plan as another wish. */
void wish_again(struct wishes *, const struct wish *);
/* The plan, by the name that its time has in a batch of one phase or of two. */
void wish_made(struct wishes *, int scenario, const struct measured *, const struct decided *);
/* Measures them within the budget, in that stage; wishes are in the order of scenarios. An
 * exit code. */
int wishes_measure(const struct wishes *, const struct sweep_options *,
		   const struct scenario_list *, const char *stage);
/* confirm.c: what is measured once more, and of which scenarios. */
struct confirm_asked {
	const char *split; /* NULL: all */
	int limit;         /* 0: none */
	int dry_run, fill;
	const struct forest *also; /* NULL, or its picks as well */
};
int confirm_run(struct data *, const struct forest *, const struct confirm_asked *,
		const struct sweep_options *);
/* refine.c: the batch so far (0..1) from a to b; NULL without memory. The caller's to free. */
char *batch_between(const struct measured *a, const struct measured *b, double share);
/* Of "90s", "10m" or "1h"; NaN when it is none of these. */
double budget_seconds(const char *text);

#endif
