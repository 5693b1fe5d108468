/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_rows.h - points of the GPU's kernels on shapes and corner batches, compared with the
 * definition through the gate that a sweep uses. Include after cmocka.h. The includer defines
 * `load_code`, and its shapes if it defines OWN_SHAPES. */
#ifndef TESTS_SUPPORT_GPU_ROWS_H
#define TESTS_SUPPORT_GPU_ROWS_H
#include "kernels/device/device.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
#include "kernels/spec/space.h"

enum { MOST_ROWS = 400, MAX_TESTS = 1024 };

struct row_shape {
	const char *name;
	attune_shape s;
	enum layout layout;
};

#define SIZE sizeof(attune_shape)
#ifdef OWN_SHAPES
#include OWN_SHAPES
#else
// clang-format off
static struct row_shape shapes[] = {
	{ "group 4, bf16, head 128", { SIZE, 8, 2, 128, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 }, LAYOUT_NHD },
	{ "group 7, f16, head 64, pages of 48, hnd", { SIZE, 14, 2, 64, 48, ATTUNE_F16, ATTUNE_F16, .causal = 1 }, LAYOUT_HND },
	{ "one KV head, group 40, pages of 544", { SIZE, 40, 1, 128, 544, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 }, LAYOUT_NHD },
	{ "head 256, pages of 8, packed", { SIZE, 4, 2, 256, 8, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 }, LAYOUT_PACKED },
	{ "window and sinks, head 64, group 8", { SIZE, 16, 2, 64, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1, .window = 21, .has_sinks = 1 }, LAYOUT_LBHNC },
	{ "softcap, head 80, no mask", { SIZE, 6, 3, 80, 16, ATTUNE_F16, ATTUNE_F16, .softcap = 20 }, LAYOUT_LHBNC },
	{ "alibi, head 192, pages of 1", { SIZE, 3, 3, 192, 1, ATTUNE_BF16, ATTUNE_BF16, .causal = 1, .has_alibi = 1 }, LAYOUT_HND },
	{ "all at once, head 96, group 5, packed", { SIZE, 10, 2, 96, 16, ATTUNE_F16, ATTUNE_F16, .causal = 1, .window = 70, .softcap = 30, .has_sinks = 1, .has_alibi = 1, .scale = 0.2f }, LAYOUT_PACKED },
	{ "group 1, head 192, pages of 24, alibi and sinks", { SIZE, 2, 2, 192, 24, ATTUNE_F16, ATTUNE_F16, .causal = 1, .has_alibi = 1, .has_sinks = 1 }, LAYOUT_PAIRED },
	{ "group 16, pages of 32, window", { SIZE, 16, 1, 128, 32, ATTUNE_BF16, ATTUNE_BF16, .causal = 1, .window = 40 }, LAYOUT_BHLNC },
	{ "one KV head, group 5", { SIZE, 5, 1, 128, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 }, LAYOUT_BLNHC },
	{ "group 3, head 128, pages of 64", { SIZE, 6, 2, 128, 64, ATTUNE_F16, ATTUNE_F16, .causal = 1 }, LAYOUT_BLHNC },
	{ "group 2, head 16, sinks", { SIZE, 4, 2, 16, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1, .has_sinks = 1 }, LAYOUT_NHD },
	{ "group 6, head 32, window, softcap", { SIZE, 6, 1, 32, 16, ATTUNE_F16, ATTUNE_F16, .causal = 1, .window = 33, .softcap = 5 }, LAYOUT_PACKED },
#define CLASSIC .kv_layout = ATTUNE_KV_CLASSIC
	{ "classic, group 4, head 128", { SIZE, 8, 2, 128, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1, CLASSIC }, LAYOUT_CLASSIC },
	{ "classic, group 8, head 64, pages of 8, window, sinks", { SIZE, 8, 1, 64, 8, ATTUNE_F16, ATTUNE_F16, .causal = 1, .window = 21, .has_sinks = 1, CLASSIC }, LAYOUT_CLASSIC },
	{ "classic, head 256, pages of 32, alibi", { SIZE, 3, 3, 256, 32, ATTUNE_BF16, ATTUNE_BF16, .causal = 1, .has_alibi = 1, CLASSIC }, LAYOUT_CLASSIC },
	{ "classic, head 80, softcap, no mask", { SIZE, 6, 2, 80, 16, ATTUNE_F16, ATTUNE_F16, .softcap = 20, CLASSIC }, LAYOUT_CLASSIC },
	{ "classic, head 120, pages of 32, sinks", { SIZE, 10, 2, 120, 32, ATTUNE_BF16, ATTUNE_BF16, .causal = 1, .has_sinks = 1, CLASSIC }, LAYOUT_CLASSIC },
#undef CLASSIC
};
// clang-format on
#endif

static struct device dev;
static struct pool *pool;
static struct row {
	char name[320];
	struct choice choice;
	int shape;
} rows[MAX_TESTS];
static size_t num_rows;
static unsigned long long row_seed = 3; /* of workloads: scales follow from it */

static enum attune_status load_code(struct code **, const struct kernel *, const char *flags);

static inline unsigned any_number(void)
{
	static unsigned long long seed = 20240601;
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(seed >> 40);
}

static inline void load_one(struct code **code, const struct kernel *k, const struct config *c,
			    const attune_shape *s)
{
	char flags[MAX_FLAGS];
	binary_flags(flags, sizeof flags, k, c, s);
	if (load_code(code, k, flags))
		fail_msg("%s", attune_last_error());
}

/* The choice's code and its helpers'. */
static inline void load_choice(struct loaded *l, const struct choice *c, const attune_shape *s)
{
	struct config config;
	memset(l, 0, sizeof *l);
	load_one(&l->code, c->kernel, &c->config, s);
	for (enum helper h = 0; h < NUM_HELPERS; h++) {
		const struct kernel *k = kernel_helper(BACKEND_GPU, h);
		config_default(&config, k->space);
		if (kernel_takes(c->kernel, &c->config, h))
			load_one(&l->helper[h], k, &config, s);
	}
}

static inline void unload_choice(struct loaded *l)
{
	dev.ops->unload(&dev, l->code);
	for (enum helper h = 0; h < NUM_HELPERS; h++)
		dev.ops->unload(&dev, l->helper[h]);
}

/* ---- the gate ---------------------------------------------------------------------------- */

/* `as`: the choice without its formula. */
static inline int phase_is_legal(const struct choice *c, const attune_shape *s,
				 const struct batch *b, enum phase phase, struct choice *as)
{
	struct part part;
	as->kernel = c->kernel;
	return part_make(&part, phase, s, &b->view, &dev.info) &&
	       !config_resolve(&as->config, &c->config, c->kernel, s, &part, &dev.info);
}

/* Runs the legal ones of the phases (a set of 1 << phase), up to the first that is wrong, which
 * *v describes. */
static inline void run_phases(struct verdict *v, const struct row *r, const struct loaded *l,
			      const char *text, unsigned phases)
{
	char error[160];
	struct batch *b = batch_parse(text, error, sizeof error);
	struct scenario scenario = { .batch_text = (char *)(uintptr_t)text,
				     .batch = b,
				     .shape = shapes[r->shape].s,
				     .layout = shapes[r->shape].layout,
				     .seed = row_seed };
	if (!b)
		fail_msg("%s: %s", text, error);
	*v = (struct verdict){ .outcome = OUTCOME_OK };
	for (enum phase p = PHASE_ALL; p <= PHASE_DECODE && v->outcome == OUTCOME_OK; p++) {
		struct choice as;
		if (phases >> p & 1 && phase_is_legal(&r->choice, &scenario.shape, b, p, &as))
			check_choice(v, &dev, &pool, &as, l, &scenario, p, MOST_ROWS);
	}
	batch_free(b);
}

/* ---- points ------------------------------------------------------------------------------ */

static inline void add_row(const struct choice *c, int shape)
{
	struct row *r = &rows[num_rows];
	char text[MAX_CHOICE_TEXT];
	if (c->kernel->space->why_illegal(&c->config, &shapes[shape].s, NULL, &dev.info))
		return;
	if (num_rows == MAX_TESTS) {
		printf("Bail out! more than %d rows: raise MAX_TESTS\n", MAX_TESTS);
		exit(1);
	}
	choice_text(text, sizeof text, c);
	r->choice = *c;
	r->shape = shape;
	snprintf(r->name, sizeof r->name, "%s: %s", shapes[shape].name, text);
	num_rows++;
}

/* The next shapes in turn for which the point is legal; the last one's number, or -1. */
static inline int add_point(const struct choice *c, int most)
{
	static int turn;
	int last = -1;
	for (int tried = 0, added = 0; tried < (int)COUNT(shapes) && added < most; tried++) {
		const size_t before = num_rows;
		const int shape = turn++ % (int)COUNT(shapes);
		add_row(c, shape);
		added += num_rows > before;
		last = num_rows > before ? shape : last;
	}
	return last;
}

static inline void add_value(const struct choice *with, int axis, int value, int most)
{
	struct choice c = *with;
	c.config.v[axis] = value;
	if (value != with->config.v[axis])
		add_point(&c, most);
}

static inline struct choice random_choice(const struct kernel *k)
{
	struct choice c = { .kernel = k };
	for (int i = 0; i < k->space->num_axes; i++) {
		const struct axis *a = &k->space->axis[i];
		c.config.v[i] = a->values[any_number() % (unsigned)a->num_values];
	}
	return c;
}

static inline struct choice default_choice(const struct kernel *k)
{
	struct choice c = { .kernel = k };
	config_default(&c.config, k->space);
	return c;
}

/* Other values for some axes: "PACKED=1 SEGMENTS=3" */
static inline void choice_change(struct choice *c, const char *text)
{
	const struct space *s = c->kernel->space;
	char name[32];
	int value, n, i;
	for (; sscanf(text, " %31[A-Z_]=%d%n", name, &value, &n) == 2; text += n) {
		for (i = 0; i < s->num_axes && strcmp(s->axis[i].name, name); i++)
			;
		assert_true(i < s->num_axes);
		c->config.v[i] = value;
	}
	assert_true(!*text);
}

/* The defaults, both ends of each tunable, also the middle of those that cost no compilation,
 * its first formula, and random points; each on two shapes, so that all shapes and all points
 * occur. */
static inline void add_points(const struct kernel *k)
{
	enum { RANDOM_POINTS = 6, SHAPES_A_POINT = 2 };
	const struct choice c = default_choice(k);
	add_point(&c, SHAPES_A_POINT);
	for (int i = 0; i < k->space->num_axes; i++) {
		const struct axis *a = &k->space->axis[i];
		add_value(&c, i, a->values[0], SHAPES_A_POINT);
		add_value(&c, i, a->values[a->num_values - 1], SHAPES_A_POINT);
		if (!a->is_static)
			add_value(&c, i, a->values[a->num_values / 2], SHAPES_A_POINT);
		if (i == k->space->formula_axis)
			add_value(&c, i, -1, SHAPES_A_POINT);
	}
	for (int n = 0; n < RANDOM_POINTS; n++) {
		const struct choice random = random_choice(k);
		add_point(&random, SHAPES_A_POINT);
	}
}

/* Of the others a rule refuses every point on AMD's GPUs. */
static inline int is_for_amd(const struct kernel *k)
{
	return strncmp(k->name, "ring", 4) != 0 && strncmp(k->name, "warpgroup", 9) != 0;
}

static inline int is_asked(const char *kernel, int n, char **names)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(names[i], kernel))
			return 1;
	return !n;
}

#endif
