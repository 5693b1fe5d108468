/* SPDX-License-Identifier: Apache-2.0 */
/* check_cache.c - keeps check workloads and their expected rows in the pool: hundreds of choices
 * are checked on the same corners of a shape, and the reference is slow. */
#include "check.h"
#include "workload.h"
#include "harness/scenario/scenario.h"
#include "kernels/device/device.h"
#include "kernels/spec/status.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 512 << 20 };

struct cached_check {
	struct cached_check *next; /* an older one */
	struct scenario scenario;
	struct batch batch;
	int32_t *lengths; /* query_start, then seq_lens */
	struct workload w;
	size_t bytes;
};

static void cached_check_free(struct cached_check *x)
{
	if (x->w.dev)
		workload_free(&x->w);
	free(x->lengths);
	free(x);
}

static void drop_checks(struct cached_check **at)
{
	while (*at) {
		struct cached_check *x = *at;
		*at = x->next;
		cached_check_free(x);
	}
}

static int is_for(const struct cached_check *x, const struct scenario *s, unsigned needs)
{
	const attune_batch *a = &x->batch.view, *b = &s->batch->view;
	const size_t n = (size_t)b->num_seqs * sizeof *b->seq_lens;
	return x->w.needs == needs && x->scenario.seed == s->seed && a->num_seqs == b->num_seqs &&
	       (!n || (!memcmp(a->query_start + 1, b->query_start + 1, n) &&
		       !memcmp(a->seq_lens, b->seq_lens, n)));
}

static int is_of_shape(const struct cached_check *x, const struct scenario *s)
{
	return x->scenario.layout == s->layout &&
	       !memcmp(&x->scenario.shape, &s->shape, sizeof s->shape);
}

/* Copies what the workload needs of the scenario, which it may outlive. */
static struct cached_check *cached_check_new(const struct scenario *s)
{
	const attune_batch *b = &s->batch->view;
	const size_t n = (size_t)b->num_seqs;
	struct cached_check *x = calloc(1, sizeof *x);
	if (x)
		x->lengths = calloc(2 * n + 1, sizeof *x->lengths);
	if (!x || !x->lengths) {
		free(x);
		return NULL;
	}
	if (n) {
		memcpy(x->lengths, b->query_start, (n + 1) * sizeof *x->lengths);
		memcpy(x->lengths + n + 1, b->seq_lens, n * sizeof *x->lengths);
	}
	x->batch.view = (attune_batch){ .size = sizeof(attune_batch),
					.num_seqs = b->num_seqs,
					.query_start = x->lengths,
					.seq_lens = x->lengths + n + 1 };
	x->scenario = (struct scenario){
		.batch = &x->batch, .shape = s->shape, .layout = s->layout, .seed = s->seed
	};
	return x;
}

/* Keeps the newest that fit into MAX_BYTES, at least one. */
static void trim(struct pool *p)
{
	size_t bytes = 0;
	for (struct cached_check **at = &p->cached_checks; *at; at = &(*at)->next) {
		bytes += (*at)->bytes;
		if (bytes > MAX_BYTES && at != &p->cached_checks) {
			drop_checks(at);
			return;
		}
	}
}

static enum attune_status add_check(struct pool *p, struct device *dev, const struct scenario *s,
				    unsigned needs)
{
	enum attune_status status;
	struct cached_check *x = cached_check_new(s);
	if (!x)
		return fail(ATTUNE_NO_MEMORY, "out of memory");
	status = workload_make_for(&x->w, dev, &x->scenario, needs);
	if (status) {
		cached_check_free(x);
		return status;
	}
	x->bytes = x->w.out_bytes + (x->w.order.is_shared ? 1 : 2) * (size_t)x->w.order.elements *
					(size_t)dtype_bytes(s->shape.kv_dtype);
	x->next = p->cached_checks;
	p->cached_checks = x;
	trim(p);
	return ATTUNE_OK;
}

enum attune_status cached_check_find(struct workload **w, struct device *dev, struct pool **pool,
				     const struct scenario *s, unsigned needs)
{
	struct pool *p = *pool ? *pool : calloc(1, sizeof *p);
	struct cached_check *x;
	enum attune_status status;
	if (!p)
		return fail(ATTUNE_NO_MEMORY, "out of memory");
	*pool = p;
	if (p->cached_checks && !is_of_shape(p->cached_checks, s))
		drop_checks(&p->cached_checks);
	for (x = p->cached_checks; x && !is_for(x, s, needs);)
		x = x->next;
	status = x ? ATTUNE_OK : add_check(p, dev, s, needs);
	if (!status)
		*w = x ? &x->w : &p->cached_checks->w;
	return status;
}

void pool_free(struct device *dev, struct pool *p)
{
	if (!p)
		return;
	drop_checks(&p->cached_checks);
	pool_drop(dev, p);
	if (p->filler)
		dev->ops->unload(dev, p->filler);
	free(p);
}
