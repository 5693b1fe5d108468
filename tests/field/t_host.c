/* SPDX-License-Identifier: Apache-2.0 */
/* t_host.c - the CPU library in programs with small stacks, handlers of signals, floating-point traps or
 * another rounding mode, and with more threads than CPUs. */
#include "kernels/args_more.h"
#include "tests/library/cpu_step.h"
#include "kernels/launch/run.h"
#include <fenv.h>
#include <sched.h>
#include <stdatomic.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

/* ---- stacks -------------------------------------------------------------------------------- */

/* What attune.h promises. The address sanitizer puts gaps around all that is on a stack. */
#if defined(__SANITIZE_ADDRESS__)
enum { SMALL_STACK = 1 << 20 };
#else
enum { SMALL_STACK = 64 << 10 };
#endif

enum { HEADS = 8, TOKENS = 300, LONGEST = 400, FEW_PAGES = 64 };

struct on_a_small_stack {
	attune_op *op;
	attune_tensors t;
	char *workspace;
	size_t bytes;
	int tokens; /* of the one query */
	enum attune_status status;
};

static void *plan_and_run(void *arg)
{
	struct on_a_small_stack *s = arg;
	const int32_t start[] = { 0, s->tokens }, lens[] = { LONGEST };
	const attune_batch batch = { sizeof batch, 1, start, lens };
	attune_plan plan = { .size = sizeof plan };
	s->t.query_start = start;
	s->t.seq_lens = lens;
	s->status = attune_plan_batch(s->op, &batch, &plan);
	if (!s->status)
		s->status = attune_run(s->op, &plan, &s->t, s->workspace, s->bytes, NULL);
	return NULL;
}

static void run_on_a_small_stack(struct on_a_small_stack *s)
{
	pthread_attr_t attr;
	pthread_t thread;
	assert_int_equal(pthread_attr_init(&attr), 0);
	assert_int_equal(pthread_attr_setstacksize(&attr, SMALL_STACK), 0);
	assert_int_equal(pthread_create(&thread, &attr, plan_and_run, s), 0);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
	if (s->status)
		fail_msg("%s", attune_last_error());
}

/* Returns whether the library carries code of the shape. */
static int runs_on_a_small_stack(attune_context *ctx, enum attune_dtype dtype, int head)
{
	const attune_shape of = { .size = sizeof of,
				  .num_query_heads = HEADS,
				  .num_kv_heads = 2,
				  .head_size = head,
				  .page_size = PAGE,
				  .dtype = dtype,
				  .kv_dtype = dtype,
				  .causal = 1 };
	int32_t table[FEW_PAGES];
	struct on_a_small_stack s = { .bytes = 64 << 20 };
	const enum attune_status status = attune_prepare(ctx, &of, &s.op);
	if (status == ATTUNE_UNSUPPORTED)
		return 0;
	assert_int_equal(status, ATTUNE_OK);
	for (int i = 0; i < FEW_PAGES; i++)
		table[i] = i;
	const size_t rows = (size_t)TOKENS * HEADS * (size_t)head * sizeof(float);
	char *q = calloc(1, rows), *out = calloc(1, rows);
	char *cache = calloc((size_t)FEW_PAGES * PAGE * 2 * (size_t)head, sizeof(float));
	s.workspace = aligned_alloc(64, s.bytes);
	s.t = (attune_tensors){ .size = sizeof(attune_tensors),
				.out = out,
				.q = q,
				.k_cache = cache,
				.v_cache = cache,
				.block_table = table,
				.q_token_stride = HEADS * head,
				.q_head_stride = head,
				.out_token_stride = HEADS * head,
				.out_head_stride = head,
				.k_page_stride = PAGE * 2 * head,
				.k_slot_stride = 2 * head,
				.k_head_stride = head,
				.v_page_stride = PAGE * 2 * head,
				.v_slot_stride = 2 * head,
				.v_head_stride = head,
				.block_table_stride = FEW_PAGES };
	for (s.tokens = TOKENS; s.tokens; s.tokens = s.tokens > 1 ? 1 : 0)
		run_on_a_small_stack(&s);
	free(q);
	free(out);
	free(cache);
	free(s.workspace);
	attune_release(s.op);
	return 1;
}

static void calls_need_little_stack(void **state)
{
	static const enum attune_dtype dtypes[] = { ATTUNE_F32, ATTUNE_F16, ATTUNE_BF16 };
	const char *threads = *state;
	int widest = 0;
	setenv("ATTUNE_THREADS", threads, 1);
	attune_context *ctx = open_cpu();
	for (size_t i = 0; i < COUNT(dtypes); i++)
		for (int head = 64; head <= 256; head *= 2)
			if (runs_on_a_small_stack(ctx, dtypes[i], head) && head > widest)
				widest = head;
	assert_int_equal(widest, 256);
	attune_close(ctx);
	unsetenv("ATTUNE_THREADS");
}

/* ---- signals ------------------------------------------------------------------------------- */

static atomic_long handled_by;

static void note_thread(int signal)
{
	(void)signal;
	atomic_store(&handled_by, (long)syscall(SYS_gettid));
}

/* A signal to the process goes to any of its threads that does not block it: here to none. */
static void signals_leave_the_threads_alone(void **state)
{
	static const int one[][2] = { { 1, 20 } };
	const struct timespec second = { .tv_sec = 1 };
	struct sigaction action = { .sa_handler = note_thread }, before;
	sigset_t mine, set, after;
	struct step s;
	(void)state;
	setenv("ATTUNE_THREADS", "4", 1);
	attune_context *ctx = open_cpu();
	attune_op *op = prepare(ctx);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, NULL, &mine);
	assert_false(sigismember(&mine, SIGTERM)); /* the caller's mask is as it was */
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	sigaction(SIGTERM, &action, &before);
	step_make(&s, 1, one);
	for (int i = 0; i < 50; i++) {
		kill(getpid(), SIGTERM);
		run(op, &s);
		assert_int_equal(sigtimedwait(&set, NULL, &second), SIGTERM);
	}
	assert_int_equal(atomic_load(&handled_by), 0);
	sigaction(SIGTERM, &before, NULL);
	pthread_sigmask(SIG_SETMASK, &mine, &after);
	assert_true(sigismember(&after, SIGTERM));
	step_free(&s);
	attune_release(op);
	attune_close(ctx);
	unsetenv("ATTUNE_THREADS");
}

/* ---- the floating-point environment ---------------------------------------------------------- */

/* Rows with infinite, huge and tiny elements: products overflow, and infinities meet zeros. */
static void spoil(struct step *s)
{
	const size_t n = (size_t)MAX_SEQS * MAX_PAGES * PAGE * KV_HEADS * HEAD;
	for (size_t i = 0; i < n; i += 97)
		s->v[i] = i % 2 ? INFINITY : 0;
	for (size_t i = 0; i < n; i += 61)
		s->k[i] = i % 2 ? 3e38f : 1e-40f;
}

static void traps_do_not_reach_the_kernels(void **state)
{
	const int traps = FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW;
	struct step s;
	(void)state;
	feclearexcept(FE_ALL_EXCEPT);
	if (feenableexcept(traps) < 0 || fegetexcept() != traps)
		return; /* not on this machine */
	setenv("ATTUNE_THREADS", "3", 1);
	attune_context *ctx = open_cpu();
	attune_op *op = prepare(ctx);
	fedisableexcept(traps);
	step_make(&s, (int)COUNT(mixed), mixed);
	spoil(&s);
	feclearexcept(FE_ALL_EXCEPT);
	feenableexcept(traps);
	run(op, &s);
	assert_int_equal(fegetexcept(), traps);
	assert_int_equal(fetestexcept(traps), 0); /* the kernels leave no flag set */
	fedisableexcept(traps);
	step_free(&s);
	attune_release(op);
	attune_close(ctx);
	unsetenv("ATTUNE_THREADS");
}

/* The output has the bits that it has in the usual mode, and the caller's mode stays. */
static void rounding_is_the_kernels_own(void **state)
{
	struct step s;
	(void)state;
	attune_context *ctx = open_cpu();
	attune_op *op = prepare(ctx);
	step_make(&s, (int)COUNT(mixed), mixed);
	const size_t bytes = (size_t)s.tokens * QUERY_HEADS * HEAD * sizeof *s.out;
	float *usual = malloc(bytes);
	assert_non_null(usual);
	run(op, &s);
	memcpy(usual, s.out, bytes);
	fesetround(FE_UPWARD);
	run(op, &s);
	const int mode = fegetround();
	fesetround(FE_TONEAREST);
	assert_int_equal(mode, FE_UPWARD);
	assert_memory_equal(usual, s.out, bytes);
	free(usual);
	step_free(&s);
	attune_release(op);
	attune_close(ctx);
}

/* 1 / sqrt(head size), which attune_run computes itself, has the same bits in each rounding mode and
 * raises no flag. */
static void the_default_scale_is_rounded_to_nearest(void **state)
{
	const int modes[] = { FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO },
		  heads[] = { 80, 96, 128, 192 };
	const attune_tensors none = { .size = sizeof none };
	(void)state;
	for (size_t h = 0; h < COUNT(heads); h++)
		for (size_t m = 0; m < COUNT(modes); m++) {
			attune_shape of = shape;
			struct attune_call usual, call;
			of.head_size = heads[h];
			call_from_tensors(&usual, &of, &none, 1);
			feclearexcept(FE_ALL_EXCEPT);
			fesetround(modes[m]);
			call_from_tensors(&call, &of, &none, 1);
			fesetround(FE_TONEAREST);
			assert_int_equal(fetestexcept(FE_ALL_EXCEPT), 0);
			assert_memory_equal(&call.args.scale, &usual.args.scale, sizeof(float));
		}
}

/* ---- more threads than CPUs ------------------------------------------------------------------ */

static void plan_text_with(const char *threads, char *text, size_t size, char *name,
			   size_t name_size)
{
	static const int32_t start[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8 };
	static const int32_t lens[] = { 500, 500, 500, 500, 500, 500, 500, 500 };
	const attune_batch batch = { sizeof batch, 8, start, lens };
	const attune_shape of = { .size = sizeof of,
				  .num_query_heads = 32,
				  .num_kv_heads = 8,
				  .head_size = 128,
				  .page_size = PAGE,
				  .dtype = ATTUNE_BF16,
				  .kv_dtype = ATTUNE_BF16,
				  .causal = 1 };
	attune_plan plan = { .size = sizeof plan };
	attune_op *op;
	setenv("ATTUNE_THREADS", threads, 1);
	attune_context *ctx = open_cpu();
	assert_int_equal(attune_prepare(ctx, &of, &op), ATTUNE_OK);
	assert_int_equal(attune_plan_batch(op, &batch, &plan), ATTUNE_OK);
	assert_int_equal(attune_plan_text(op, &plan, text, size), ATTUNE_OK);
	snprintf(name, name_size, "%s", attune_device_name(ctx));
	attune_release(op);
	attune_close(ctx);
	unsetenv("ATTUNE_THREADS");
}

/* On one CPU all numbers of threads have the plan of one. */
static void plans_are_for_the_threads_that_compute(void **state)
{
	cpu_set_t all, one;
	char alone[512], many[512], name[128];
	int first = 0;
	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
	while (!CPU_ISSET(first, &all))
		first++;
	CPU_ZERO(&one);
	CPU_SET(first, &one);
	assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
	plan_text_with("1", alone, sizeof alone, name, sizeof name);
	plan_text_with("64", many, sizeof many, name, sizeof name);
	assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
	assert_string_equal(alone, many);
	assert_non_null(strstr(name, "64 threads"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		{ "64 KiB of stack, one thread", calls_need_little_stack, NULL, NULL, "1" },
		{ "64 KiB of stack, three threads", calls_need_little_stack, NULL, NULL, "3" },
		cmocka_unit_test(signals_leave_the_threads_alone),
		cmocka_unit_test(traps_do_not_reach_the_kernels),
		cmocka_unit_test(rounding_is_the_kernels_own),
		cmocka_unit_test(the_default_scale_is_rounded_to_nearest),
		cmocka_unit_test(plans_are_for_the_threads_that_compute),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("host", tests, NULL, NULL);
}
