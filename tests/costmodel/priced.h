/* SPDX-License-Identifier: Apache-2.0 */
/* priced.h - times of decodes computed from known prices (tuner/costmodel/costmodel.h), so that
 * the time of each choice is known for any batch. Include after cmocka.h and synthetic.h. */
#ifndef TESTS_COSTMODEL_PRICED_H
#define TESTS_COSTMODEL_PRICED_H

#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include "tuner/costmodel/costmodel.h"
#include "tests/support/by_hand.h"

enum { MAX_BATCHES = 300, MOST = 12 };

/* Terms that are not named cost nothing. */
#define FS(...)                                      \
	{ [TERM_LAUNCH] = 2500000000, __VA_ARGS__ }, \
	{                                            \
		0                                    \
	}

/* Families and their costs: one runs two blocks an SM, one walks the keys faster with one block,
 * one has no segments; one is legal for few Q blocks only, and best there. */
enum { TILE_64, TILE_128, UNCUT, WIDE, NUM_KNOWN, PLAIN = WIDE };
static const struct known {
	const char *kernel, *set;
	struct cost_model price;
} known[NUM_KNOWN] = {
	[TILE_64] = { "segmented",
		      "BLOCK_M=16 TILE_SIZE=64",
		      { { 16, 64, 0, 0 },
			2,
			128,
			FS([TERM_PATH] = 12000000, [TERM_SPLIT] = 2000000000,
			   [TERM_MERGE] = 150000) } },
	[TILE_128] = { "segmented",
		       "BLOCK_M=16 TILE_SIZE=128",
		       { { 16, 128, 0, 0 },
			 1,
			 64,
			 FS([TERM_PATH] = 8000000, [TERM_SPLIT] = 3000000000,
			    [TERM_MERGE] = 100000) } },
	[UNCUT] = { "qblock",
		    "BLOCK_M=16 TILE_SIZE=32 NUM_WARPS=2",
		    { { 16, 32, 0, 0 }, 4, 0, FS([TERM_PATH] = 17000000, [TERM_ROWS] = 120000) } },
	[WIDE] = { "ring",
		   "COMBINE=2",
		   { { 8, 16, 0, 0 },
		     2,
		     128,
		     FS([TERM_PATH] = 6000000, [TERM_SPLIT] = 1000000000,
			[TERM_MERGE] = 150000) } },
};

struct batch_text {
	char text[40], split[10];
};

static inline int list_batches(struct batch_text v[MAX_BATCHES])
{
	static const int counts[] = { 1, 2, 3, 5, 8, 12, 16, 24, 40, 64, 100, 160 };
	int n = 0;
	for (size_t i = 0; i < COUNT(counts); i++)
		for (int length = 200; length < 70000; length += length / 3 + 7 * counts[i])
			if (counts[i] * length < 2000000 && n < MAX_BATCHES) {
				snprintf(v[n].text, sizeof v->text, "%dq1s%d", counts[i], length);
				strcpy(v[n].split, n % 5 == 2 ? "heldout" : "train");
				n++;
			}
	return n;
}

static inline double noisy_us(double us, double noise, unsigned long long *seed)
{
	const double u = (double)(next_random(seed) % 2001) / 1000 - 1; /* -1 .. 1 */
	return us * (1 + noise * u);
}

/* The same for the same batch, whatever the order. */
static inline unsigned long long noise_seed(const char *text)
{
	unsigned long long h = 5381;
	for (; *text; text++)
		h = h * 33 + (unsigned char)*text;
	return h * 1000;
}

struct making_of {
	double noise;
	int turned; /* cells in another order */
	/* The cheapest's result is wrong where it is of this one of the known, with at least as
	 * many sequences, in every so many batches; 0: never. */
	int wrong_each, wrong_seqs, wrong;
	int wide;   /* WIDE is there, too */
	int odd;    /* the cheapest is slow for 8 to 40 sequences, which prices do not capture */
	int narrow; /* every third batch has another head size, for which UNCUT was not measured */
	int mixed;  /* every fourth batch has a prefill, too */
};

static const struct making_of exactly = { .noise = 0 }, roughly = { .noise = 0.01 };

static inline int num_known(const struct making_of *how)
{
	return how->wide ? NUM_KNOWN : PLAIN;
}

/* With its segments by costs, where it has any. */
static inline void known_choice(struct choice *c, const struct known *k)
{
	const char *where;
	c->kernel = kernel_find(BACKEND_GPU, k->kernel);
	assert_true(config_parse(&c->config, c->kernel->space, with(k->kernel, k->set), &where));
	if (c->kernel->space->formula_axis >= 0)
		c->config.v[c->kernel->space->formula_axis] = SEGMENTS_FITTED;
}

/* The best of all legal values of a known family; -1: none is legal. */
static inline long long known_least(const struct known *k, const attune_shape *shape,
				    const struct part *p, int *segments)
{
	const struct segment_costs costs = cost_model_segments(&k->price);
	struct choice c;
	struct config at;
	known_choice(&c, k);
	if (config_fitted(&at, &c.config, c.kernel, &costs, shape, p, &h200_run.device))
		return -1;
	*segments = config_value(&at, c.kernel->space, "SEGMENTS", 1);
	return cost_model_estimate(&k->price, &p->f, *segments);
}

/* Of all families and values; the family's index. */
static inline int cheapest_known(const struct making_of *how, const attune_shape *shape,
				 const struct part *p, int *segments)
{
	long long least = -1;
	int best = 0;
	for (int k = 0; k < num_known(how); k++) {
		int v;
		const long long fs = known_least(&known[k], shape, p, &v);
		if (fs < 0 || (least >= 0 && fs >= least))
			continue;
		least = fs;
		best = k;
		*segments = v;
	}
	return best;
}

static inline int is_wrong(const struct batch_text *b, const struct making_of *how, int k)
{
	return how->wrong_each && noise_seed(b->text) / 1000 % (unsigned)how->wrong_each == 0 &&
	       atoi(b->text) >= how->wrong_seqs && k == how->wrong;
}

/* The cells of one known: all legal values. best: whether it is the cheapest, with `segments`. */
static inline void add_known(struct data *d, const struct batch_text *b,
			     const struct making_of *how, const struct store_cell *like,
			     const struct part *p, int k, int best, int segments)
{
	const struct known *one = &known[k];
	struct choice c;
	known_choice(&c, one);
	const struct space *s = c.kernel->space;
	const int axis = s->formula_axis, seqs = atoi(b->text);
	for (int i = 0; i < (axis < 0 ? 1 : s->axis[axis].num_values); i++) {
		const int v = axis < 0 ? 1 : s->axis[axis].values[i];
		unsigned long long seed = noise_seed(b->text) + 100u * (unsigned)v + (unsigned)k;
		char set[MAX_CHOICE_TEXT];
		if (axis >= 0)
			c.config.v[axis] = v;
		if (s->why_illegal(&c.config, &like->shape, p, &h200_run.device))
			continue;
		const double us = (double)cost_model_estimate(&one->price, &p->f, v) / 1e9;
		config_text(set, sizeof set, &c.config, s);
		struct store_cell cell = *like;
		cell.kernel = one->kernel;
		cell.choice = set;
		cell.median_us = noisy_us(us, how->noise, &seed);
		if (how->odd && best && seqs >= 8 && seqs <= 40)
			cell.median_us *= 4;
		cell.min_us = cell.median_us * 0.98;
		if (is_wrong(b, how, k) && best && v == segments) {
			cell.outcome = "wrong";
			cell.median_us = NAN;
		}
		assert_true(data_add(d, &cell));
	}
}

static inline void add_batch(struct data *d, const struct batch_text *b,
			     const struct making_of *how, int number)
{
	const int is_mixed = how->mixed && number % 4 == 1;
	char error[100], text[60];
	snprintf(text, sizeof text, "%s%s", is_mixed ? "q500_" : "", b->text);
	struct batch *parsed = batch_parse(text, error, sizeof error);
	struct store_cell like = cell_like(text, "decode", "", "", 1);
	struct part p;
	int segments = 1;
	like.split = b->split;
	if (how->narrow && number % 3 == 0) {
		like.shape.head_size = 64;
		like.model = "narrow@1";
	}
	assert_true(parsed &&
		    part_make(&p, PHASE_DECODE, &like.shape, &parsed->view, &h200_run.device));
	if (is_mixed) {
		struct store_cell prefill = like;
		prefill.phase = "prefill";
		prefill.kernel = known[UNCUT].kernel;
		prefill.choice = with(known[UNCUT].kernel, known[UNCUT].set);
		prefill.median_us = 50;
		assert_true(data_add(d, &prefill));
	}
	const int cheapest = cheapest_known(how, &like.shape, &p, &segments);
	for (int i = 0; i < num_known(how); i++) {
		const int k = how->turned ? num_known(how) - 1 - i : i;
		if (k != UNCUT || like.shape.head_size == llama.head_size)
			add_known(d, b, how, &like, &p, k, k == cheapest, segments);
	}
	batch_free(parsed);
}

static inline struct data *make_priced(const struct making_of *how)
{
	static struct batch_text batch[MAX_BATCHES];
	struct data *d = data_new("h200", &h200_run);
	const int n = list_batches(batch);
	assert_in_range(n, 120, MAX_BATCHES - 1);
	for (int i = 0; i < n; i++) {
		const int number = how->turned ? (i * 7 + 3) % n : i;
		add_batch(d, &batch[number], how, number);
	}
	assert_true(data_finish(d));
	assert_int_equal(d->n, n); /* 7 does not divide it */
	snprintf(d->hash, sizeof d->hash, "%032d", 9);
	return d;
}

/* Which of the known a choice is of. */
static inline const struct known *known_as(const struct choice *c)
{
	const int tile = config_value(&c->config, c->kernel->space, "TILE_SIZE", 0);
	for (int k = 0; k < NUM_KNOWN; k++)
		if (!strcmp(known[k].kernel, c->kernel->name) && known[k].price.block.tile == tile)
			return &known[k];
	fail_msg("no such choice");
	return NULL;
}

#endif
