/* exact.c - finds the best tree of a depth: branch and bound on all CPUs, starting from the hybrid
 * tree. */
#include "solver.h"
#include "tree.h"
#include "harness/base/base.h"
#include "tuner/matrix/matrix.h"
#include <stdlib.h>
#include <unistd.h>

enum { MAX_THREADS = 16, ROWS_FOR_THREADS = 200 };

struct member {
	struct solver s;
	struct search x;
	int depth;
	pthread_t thread;
};

static void *work(void *arg)
{
	struct member *w = arg;
	view_fill(&w->s, &w->s.view[w->depth], w->s.all, w->s.n);
	search_view(&w->x, w->depth, NULL);
	return NULL;
}

/* Searches the root with all members; member 0 is the calling thread. */
static struct answer work_together(struct member *w, int n, int depth, int64_t budget, int *winner)
{
	struct team team = { .lock = PTHREAD_MUTEX_INITIALIZER };
	int started[MAX_THREADS] = { 0 };
	team.best = (struct answer){ .value = INT64_MAX, .f = ATTUNE_NUM_FEATURES };
	for (int i = n - 1; i >= 0; i--) {
		w[i].depth = depth;
		w[i].x = (struct search){ .team = &team,
					  .member = i,
					  .s = &w[i].s,
					  .v = &w[i].s.view[depth],
					  .budget = budget };
		if (i)
			started[i] = !pthread_create(&w[i].thread, NULL, work, &w[i]);
	}
	work(&w[0]);
	for (int i = 1; i < n; i++)
		if (started[i])
			pthread_join(w[i].thread, NULL);
	*winner = team.winner;
	return team.best;
}

static int64_t tree_as_cost(const struct solver *s, const struct tree *t)
{
	const long long cost = tree_cost(t, 0);
	return (cost / FORBIDDEN_SUM * s->forbidden + cost % FORBIDDEN_SUM) * s->scale +
	       tree_leaves(t) - s->base;
}

/* Small samples finish before threads have started. */
static int count_threads(const struct matrix *m, int depth, int asked)
{
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	const int n = asked ? asked : cpus > 1 ? (int)cpus : 1;
	if (depth < 3 || (!asked && m->rows < ROWS_FOR_THREADS))
		return 1;
	return n < MAX_THREADS ? n : MAX_THREADS;
}

/* On entry t has a tree of that depth. */
static int search_root(struct tree *t, const struct matrix *m, int depth, int support, int threads)
{
	const int n = count_threads(m, depth, threads);
	struct member *w = calloc((size_t)n, sizeof *w);
	int done = w != NULL, winner = 0;
	for (int i = 0; w && i < n; i++)
		done &= solver_open(&w[i].s, m, NULL, m->rows, depth, support);
	if (done) {
		const int64_t budget = tree_as_cost(&w[0].s, t);
		const struct answer a = n > 1 ? work_together(w, n, depth, budget, &winner)
					      : solve(&w[0].s, w[0].s.all, w[0].s.n, depth, budget);
		tree_free(t);
		done = tree_extract(t, &w[winner].s, &a, depth);
	}
	for (int i = 0; w && i < n; i++)
		solver_close(&w[i].s);
	free(w);
	return done;
}

int tree_exact(struct tree *t, const struct matrix *m, int depth, int support, int threads)
{
	const struct growth first = { .max_leaves = 1 << depth,
				      .max_depth = depth,
				      .min_support = support };
	return tree_grow(t, m, NULL, m->rows, &first) && search_root(t, m, depth, support, threads);
}
