/* t_gpu_kernels.c - the GPU's kernels against the definition, through the gate
 * that a sweep uses. Skips itself without an NVIDIA GPU. Arguments: only these kernels.
 *
 * Of each kernel: the defaults, both ends of each tunable, the middle too of those
 * that cost no compilation, its first formula, and a few seeded random legal points; each on two of the shapes below, so that all shapes and
 * all points occur, over all corner batches and all phases. */
#include "../harness/harness.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { RANDOM_POINTS = 6, SHAPES_A_POINT = 2, MOST_ROWS = 400, MAX_TESTS = 1024 };

// clang-format off
static struct {
	const char *name;
	attune_shape s;
	enum layout layout;
} shapes[] = {
	{ "group 4, bf16, head 128", { 8, 2, 128, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 }, LAYOUT_NHD },
	{ "group 7, f16, head 64, pages of 48, hnd", { 14, 2, 64, 48, ATTUNE_F16, ATTUNE_F16, .causal = 1 }, LAYOUT_HND },
	{ "one KV head, group 40, pages of 544", { 40, 1, 128, 544, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 }, LAYOUT_NHD },
	{ "head 256, pages of 8", { 4, 2, 256, 8, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 }, LAYOUT_NHD },
	{ "window and sinks, head 64, group 8", { 16, 2, 64, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1, .window = 21, .has_sinks = 1 }, LAYOUT_NHD },
	{ "softcap, head 80, no mask", { 6, 3, 80, 16, ATTUNE_F16, ATTUNE_F16, .softcap = 20 }, LAYOUT_NHD },
	{ "alibi, head 192, pages of 1", { 3, 3, 192, 1, ATTUNE_BF16, ATTUNE_BF16, .causal = 1, .has_alibi = 1 }, LAYOUT_HND },
	{ "all at once, head 96, group 5", { 10, 2, 96, 16, ATTUNE_F16, ATTUNE_F16, .causal = 1, .window = 70, .softcap = 30, .has_sinks = 1, .has_alibi = 1, .scale = 0.2f }, LAYOUT_NHD },
#define CLASSIC .kv_layout = ATTUNE_KV_CLASSIC
	{ "classic, group 4, head 128", { 8, 2, 128, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1, CLASSIC }, LAYOUT_CLASSIC },
	{ "classic, group 8, head 64, pages of 8, window, sinks", { 8, 1, 64, 8, ATTUNE_F16, ATTUNE_F16, .causal = 1, .window = 21, .has_sinks = 1, CLASSIC }, LAYOUT_CLASSIC },
	{ "classic, head 256, pages of 32, alibi", { 3, 3, 256, 32, ATTUNE_BF16, ATTUNE_BF16, .causal = 1, .has_alibi = 1, CLASSIC }, LAYOUT_CLASSIC },
	{ "classic, head 80, softcap, no mask", { 6, 2, 80, 16, ATTUNE_F16, ATTUNE_F16, .softcap = 20, CLASSIC }, LAYOUT_CLASSIC },
	{ "classic, head 120, pages of 32, sinks", { 10, 2, 120, 32, ATTUNE_BF16, ATTUNE_BF16, .causal = 1, .has_sinks = 1, CLASSIC }, LAYOUT_CLASSIC },
#undef CLASSIC
};
// clang-format on

static struct device dev;
static struct pool *pool;
static struct row {
	char name[320];
	struct choice choice;
	int shape;
} rows[MAX_TESTS];
static struct CMUnitTest tests[MAX_TESTS];
static size_t num_rows;
static unsigned long long seed = 20240601;

static unsigned next_random(void)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(seed >> 40);
}

static enum attune_status load(struct code **code, const struct kernel *k, const struct config *c,
			       const attune_shape *s)
{
	char flags[MAX_FLAGS];
	struct binary b;
	enum attune_status status;
	binary_flags(flags, sizeof flags, k, c, s);
	if (jit_compile(&b, k, flags, dev.info.arch))
		fail_msg("%s %s: %s", k->name, flags, b.log);
	status = dev.ops->load(&dev, code, &b.blob);
	jit_free(&b);
	return status;
}

static void load_choice(struct loaded *l, const struct choice *c, const attune_shape *s)
{
	struct config config;
	memset(l, 0, sizeof *l);
	if (load(&l->code, c->kernel, &c->config, s))
		fail_msg("%s", attune_last_error());
	for (enum helper h = 0; h < NUM_HELPERS; h++) {
		const struct kernel *k = kernel_helper(BACKEND_GPU, h);
		config_default(&config, k->space);
		if (kernel_takes(c->kernel, &c->config, h) && load(&l->helper[h], k, &config, s))
			fail_msg("%s", attune_last_error());
	}
}

/* `as`: the choice without its formula. */
static int phase_is_legal(const struct choice *c, const attune_shape *s, const struct batch *b,
			  enum phase phase, struct choice *as)
{
	struct part part;
	as->kernel = c->kernel;
	return part_make(&part, phase, s, &b->view, &dev.info) &&
	       !config_resolve(&as->config, &c->config, c->kernel, s, &part, &dev.info);
}

static void gate(const struct row *r, const struct loaded *l, const char *text)
{
	char error[160];
	struct batch *b = batch_parse(text, error, sizeof error);
	struct scenario scenario = { .batch_text = (char *)text,
				     .batch = b,
				     .shape = shapes[r->shape].s,
				     .layout = shapes[r->shape].layout,
				     .seed = 3 };
	if (!b)
		fail_msg("%s: %s", text, error);
	for (enum phase p = PHASE_ALL; p <= PHASE_DECODE; p++) {
		struct verdict v;
		struct choice as;
		if (!phase_is_legal(&r->choice, &scenario.shape, b, p, &as))
			continue;
		check_choice(&v, &dev, &pool, &as, l, &scenario, p, MOST_ROWS);
		if (v.outcome != OUTCOME_OK)
			fail_msg("%s, phase %d: %s: %s", text, (int)p, outcome_name(v.outcome),
				 v.text);
	}
	batch_free(b);
}

static void passes_the_corners(void **state)
{
	const struct row *r = *state;
	struct loaded l;
	load_choice(&l, &r->choice, &shapes[r->shape].s);
	for (const char *const *text = corner_batches; *text; text++)
		gate(r, &l, *text);
	dev.ops->unload(&dev, l.code);
	for (enum helper h = 0; h < NUM_HELPERS; h++)
		dev.ops->unload(&dev, l.helper[h]);
}

static void add_row(const struct choice *c, int shape)
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
	tests[num_rows++] = (struct CMUnitTest){ r->name, passes_the_corners, NULL, NULL, r };
}

/* The next shapes in turn for which the point is legal. */
static void add_point(const struct choice *c)
{
	static int turn;
	for (int tried = 0, added = 0; tried < (int)COUNT(shapes) && added < SHAPES_A_POINT;
	     tried++) {
		const size_t before = num_rows;
		add_row(c, turn++ % (int)COUNT(shapes));
		added += num_rows > before;
	}
}

static void add_value(const struct kernel *k, int axis, int value)
{
	struct choice c = { .kernel = k };
	config_default(&c.config, k->space);
	c.config.v[axis] = value;
	if (value != k->space->axis[axis].dflt)
		add_point(&c);
}

static void add_points(const struct kernel *k)
{
	struct choice c = { .kernel = k };
	config_default(&c.config, k->space);
	add_point(&c);
	for (int i = 0; i < k->space->num_axes; i++) {
		const struct axis *a = &k->space->axis[i];
		add_value(k, i, a->values[0]);
		add_value(k, i, a->values[a->num_values - 1]);
		if (!a->is_static)
			add_value(k, i, a->values[a->num_values / 2]);
		if (i == k->space->formula_axis)
			add_value(k, i, -1);
	}
	for (int n = 0; n < RANDOM_POINTS; n++) {
		for (int i = 0; i < k->space->num_axes; i++) {
			const struct axis *a = &k->space->axis[i];
			c.config.v[i] = a->values[next_random() % (unsigned)a->num_values];
		}
		add_point(&c);
	}
}

static int is_asked(const char *kernel, int n, char **names)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(names[i], kernel))
			return 1;
	return !n;
}

int main(int argc, char **argv)
{
	const char *wanted = getenv("ATTUNE_TEST_GPU");
	int failed;
	if (device_open(&dev, "cuda")) {
		printf("1..0 # SKIP %s\n", attune_last_error());
		return wanted && *wanted && strcmp(wanted, "cpu") ? 1 : 0;
	}
	for (size_t i = 0; i < COUNT(shapes); i++)
		shapes[i].s.has_new_kv = 1;
	for (const struct kernel *k = attune_kernels; k->name; k++)
		if (k->backend == BACKEND_GPU && k->selectable &&
		    is_asked(k->name, argc - 1, argv + 1))
			add_points(k);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	failed = _cmocka_run_group_tests("gpu_kernels", tests, num_rows, NULL, NULL);
	pool_free(&dev, pool);
	device_close(&dev);
	return failed;
}
