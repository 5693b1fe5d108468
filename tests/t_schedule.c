/* t_schedule.c - the list of Q blocks that static kernels go through: on the host against a
 * count block by block; what the device writes against the host's; geometries. */
#include "../harness/harness.h"
#include "../kernels/run.h"
#include "../kernels/schedule.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 400, MOST_SEQS = 2600, GUARD = 0x5eed };

static const struct device_info h200 = { .backend = BACKEND_GPU,
					 .arch = "sm_90",
					 .units = 132,
					 .lanes = 32,
					 .smem_per_block = 227 << 10,
					 .smem_per_unit = 228 << 10 };
static const attune_shape shape = { 8, 2, 128, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 };

static unsigned below(unsigned n)
{
	static unsigned long long seed = 11;
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(seed >> 33) % n;
}

static struct lengths {
	attune_batch batch;
	int32_t start[MOST_SEQS + 1], seq[MOST_SEQS];
} l;

/* Also sequences without a query; few sequences and many; all alike and not. */
static void random_batch(void)
{
	const unsigned longest = below(2) ? 1 + below(2) : 1 + below(300);
	l.batch = (attune_batch){ 1 + (int)below(below(8) ? 40 : MOST_SEQS), l.start, l.seq };
	for (int i = 0; i < l.batch.num_seqs; i++) {
		const int32_t query = (int32_t)(below(4) ? below(longest + 1) : below(2));
		l.start[i + 1] = l.start[i] + query;
		l.seq[i] = query + (int32_t)below(50);
	}
}

static struct choice random_choice(const struct part *p)
{
	struct choice c = { .kernel = kernel_find(BACKEND_GPU, below(2) ? "qblock_static"
									: "segmented_static") };
	const struct space *s = c.kernel->space;
	do
		for (int i = 0; i < s->num_axes; i++)
			c.config.v[i] = s->axis[i].values[below((unsigned)s->axis[i].num_values)];
	while (s->why_illegal(&c.config, &shape, p, &h200));
	return c;
}

/* Goes through the part's sequences token by token, a block begins every so many. */
static void assert_lists(const int *words, const struct part *p, int tokens)
{
	int blocks = 0;
	assert_int_equal(words[SCHEDULE_PREFIX], 0);
	for (int i = 0; i < p->seq_count; i++) {
		const int *start = &l.start[p->seq_begin + i], query = start[1] - start[0];
		for (int t = 0; t < query; t++)
			blocks += query >= p->min_query && query <= p->max_query && t % tokens == 0;
		assert_int_equal(words[SCHEDULE_PREFIX + i + 1], blocks);
	}
	assert_int_equal(words[SCHEDULE_BLOCKS], blocks);
	assert_int_equal(words[SCHEDULE_TOKENS], tokens);
	assert_int_equal(words[SCHEDULE_VARIANT], 0);
}

static int random_part(struct part *p)
{
	random_batch();
	return part_make(p, (enum phase)below(3), &shape, &l.batch, &h200);
}

static void host_lists_every_block(void **state)
{
	static int words[SCHEDULE_WORDS(MOST_SEQS) + 1];
	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		struct part p;
		if (!random_part(&p))
			continue;
		const struct choice c = random_choice(&p);
		const size_t n = part_schedule_words(c.kernel, &p);
		const int rows = config_value(&c.config, c.kernel->space, "BLOCK_M", 0);
		words[n] = GUARD;
		part_schedule(words, c.kernel, &c.config, &shape, &p, &h200, l.start);
		assert_lists(words, &p, rows / 4);
		assert_int_equal(words[SCHEDULE_SEGMENTS],
				 config_value(&c.config, c.kernel->space, "SEGMENTS", 1));
		assert_int_equal(words[n], GUARD);
	}
}

/* The grid is the device's, all of it is counted by the items, and a spared SM is one block
 * less, which leaves no room for a second one beside it. */
static void grids_depend_on_the_device(void **state)
{
	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		struct part p;
		struct geometry g;
		if (!random_part(&p))
			continue;
		const struct choice c = random_choice(&p);
		const struct space *s = c.kernel->space;
		const int each = config_value(&c.config, s, "BLOCKS_PER_SM", 0);
		const int spare = config_value(&c.config, s, "SPARE_UNITS", 0);
		s->geometry(&c.config, &shape, &p, &h200, &g);
		assert_int_equal(g.x, 132 * each - spare);
		assert_int_equal(g.y * g.z, 1);
		assert_true((int)g.smem * each <= h200.smem_per_unit);
		assert_true(!spare || 2 * (int)g.smem > h200.smem_per_unit);
		assert_true(geometry_items(&g) >= p.f.num_seqs * g.segments);
		assert_int_equal(g.scratch, sizeof(int) * part_schedule_words(c.kernel, &p));
	}
}

static void others_take_no_list(void **state)
{
	const struct part p = { .seq_count = 7 };
	(void)state;
	for (const struct kernel *k = attune_kernels; k->name; k++)
		if (!strstr(k->name, "_static")) {
			assert_int_equal(part_schedule_words(k, &p), 0);
			assert_false(kernel_takes(k, NULL, HELPER_SCHEDULE));
		}
}

/* ---- on the device ---------------------------------------------------------------------- */

static struct device dev;

static struct code *load(const struct kernel *k)
{
	struct config c;
	struct binary b;
	struct code *code;
	char flags[MAX_FLAGS];
	config_default(&c, k->space);
	binary_flags(flags, sizeof flags, k, &c, &shape);
	if (jit_compile(&b, k, flags, dev.info.arch))
		fail_msg("%s %s: %s", k->name, flags, b.log);
	if (dev.ops->load(&dev, &code, &b.blob))
		fail_msg("%s", attune_last_error());
	jit_free(&b);
	return code;
}

static void device_writes_the_same(void **state)
{
	static int words[SCHEDULE_WORDS(MOST_SEQS)], host[SCHEDULE_WORDS(MOST_SEQS)];
	const struct kernel *k = kernel_helper(BACKEND_GPU, HELPER_SCHEDULE);
	struct geometry g;
	struct config c;
	void *start, *list;
	(void)state;
	struct code *code = load(k);
	config_default(&c, k->space);
	assert_false(dev.ops->alloc(&dev, &start, sizeof l.start));
	assert_false(dev.ops->alloc(&dev, &list, sizeof words));
	for (int round = 0; round < ROUNDS; round++) {
		struct part p;
		if (!random_part(&p))
			continue;
		const struct choice as = random_choice(&p);
		const size_t n = part_schedule_words(as.kernel, &p);
		part_schedule(host, as.kernel, &as.config, &shape, &p, &h200, l.start);
		const struct attune_args a = { .query_start = start,
					       .seq_begin = p.seq_begin,
					       .seq_count = p.seq_count,
					       .min_query = p.min_query,
					       .max_query = p.max_query,
					       .segments = host[SCHEDULE_SEGMENTS],
					       .scratch = list,
					       .option = { host[SCHEDULE_TOKENS] } };
		k->space->geometry(&c, &shape, &p, &dev.info, &g);
		assert_false(dev.ops->put(&dev, start, l.start, sizeof l.start));
		assert_false(dev.ops->fill(&dev, list, 0xff, sizeof words));
		assert_false(dev.ops->launch(&dev, code, &g, &a, sizeof a, NULL));
		assert_false(dev.ops->wait(&dev, NULL));
		assert_false(dev.ops->get(&dev, words, list, sizeof words));
		assert_memory_equal(words, host, n * sizeof *words);
		if (n < COUNT(words))
			assert_int_equal(words[n], -1);
	}
	dev.ops->release(&dev, start);
	dev.ops->release(&dev, list);
	dev.ops->unload(&dev, code);
}

int main(void)
{
	const char *wanted = getenv("ATTUNE_TEST_GPU");
	const int no_gpu = device_open(&dev, "cuda") != ATTUNE_OK;
	if (no_gpu && wanted && *wanted && strcmp(wanted, "cpu"))
		return 1;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(host_lists_every_block),
		cmocka_unit_test(grids_depend_on_the_device),
		cmocka_unit_test(others_take_no_list),
		cmocka_unit_test(device_writes_the_same),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const int failed =
	    _cmocka_run_group_tests("schedule", tests, COUNT(tests) - (size_t)no_gpu, NULL, NULL);
	if (!no_gpu)
		device_close(&dev);
	return failed;
}
