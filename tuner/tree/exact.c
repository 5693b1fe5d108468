/* exact.c - finds the best tree of a depth and its certificate: branch and bound on all CPUs,
 * starting from the hybrid tree. */
#include "solver.h"
#include "tree.h"
#include "harness/base/base.h"
#include "tuner/matrix/matrix.h"
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- threads ------------------------------------------------------------------------ */
enum { MAX_THREADS = 16, ROWS_FOR_THREADS = 200 };

struct member {
	struct solver s;
	struct search x;
	int depth;
	pthread_t thread;
};

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

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
	struct answer best = w[0].x.best;
	for (int i = 1; i < n; i++) {
		if (!started[i])
			continue;
		pthread_join(w[i].thread, NULL);
		best.lower = least(best.lower, w[i].x.best.lower);
		best.relaxed = least(best.relaxed, w[i].x.best.relaxed);
	}
	best.value = team.best.value;
	best.f = team.best.f;
	best.at = team.best.at;
	best.lower = least(best.lower, best.value);
	best.solved = best.value <= budget && best.lower == best.value;
	*winner = team.winner;
	return best;
}

/* ---- the tree and its certificate ------------------------------------------------- */
static int64_t tree_as_cost(const struct solver *s, const struct tree *t, long long lambda)
{
	const long long cost = tree_cost(t, 0), leaves = tree_leaves(t);
	return (cost / FORBIDDEN_SUM * s->forbidden + cost % FORBIDDEN_SUM + lambda * leaves) *
		   s->scale +
	       leaves - s->base;
}

static void certify(struct certificate *c, const struct tree *t, const struct exact_options *o,
		    long long bound)
{
	c->cost = tree_cost(t, 0);
	c->objective = c->cost + o->lambda * tree_leaves(t);
	c->bound = bound < c->objective ? bound : c->objective;
	c->gap = c->objective == c->bound ? 0
		 : c->bound > 0           ? (double)(c->objective - c->bound) / (double)c->bound
					  : INFINITY;
}

/* Small samples finish before threads have started. */
static int count_threads(const struct matrix *m, const struct exact_options *o)
{
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	const int n = o->threads ? o->threads : cpus > 1 ? (int)cpus : 1;
	if (o->depth < 3 || (!o->threads && m->rows < ROWS_FOR_THREADS))
		return 1;
	return n < MAX_THREADS ? n : MAX_THREADS;
}

static int search_root(struct tree *t, const struct matrix *m, const struct exact_options *o,
		       struct certificate *c, double begin)
{
	const int n = count_threads(m, o);
	struct member *w = calloc((size_t)n, sizeof *w);
	int done = w != NULL, winner = 0;
	for (int i = 0; w && i < n; i++) {
		done &= solver_open(&w[i].s, m, NULL, m->rows, o->depth, o->min_support, o->lambda);
		w[i].s.deadline = o->seconds > 0 ? begin + o->seconds : 0;
	}
	if (done) {
		const int64_t budget = tree_as_cost(&w[0].s, t, o->lambda);
		const struct answer a =
		    n > 1 ? work_together(w, n, o->depth, budget, &winner)
			  : solve(&w[0].s, w[0].s.all, w[0].s.n, o->depth, budget);
		struct solver *s = &w[winner].s;
		s->deadline = s->late = 0;
		if (a.value < budget || a.solved) {
			tree_free(t);
			done = tree_extract(t, s, &a, o->depth);
		}
		if (done)
			certify(c, t, o, solver_cost(s, a.lower));
	}
	for (int i = 0; w && i < n; i++) {
		c->nodes += w[i].s.nodes;
		solver_close(&w[i].s);
	}
	free(w);
	return done;
}

int tree_exact(struct tree *t, const struct matrix *m, const struct exact_options *o,
	       struct certificate *c)
{
	const int look = o->depth > 3 ? 3 : 2; /* a better first tree prunes more */
	const struct growth first = { 1 << o->depth, o->depth, o->min_support, look, o->lambda,
				      SIZE_MOST,     0 };
	const double begin = seconds_now();
	*c = (struct certificate){ 0 };
	const int done = tree_grow(t, m, NULL, m->rows, &first) && search_root(t, m, o, c, begin);
	c->seconds = seconds_now() - begin;
	return done;
}
