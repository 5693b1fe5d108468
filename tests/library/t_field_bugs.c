/* t_field_bugs.c - batches on which attention libraries were wrong in public (tests/FAULTS.md), by the
 * public API against the definition. Slots that no query sees are NaN, page 0 is in no live entry and
 * NaN too, and entries behind a sequence's pages name page 0.
 *
 * All rows run on the CPU; on a GPU, or the emulated one, those that it does in seconds. */
#include "harness/check/check.h"
#include "kernels/launch/run.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>
#include "override_head.h"
#include "tests/support/gpu_here.h"

enum { MOST_GROUPS = 6, FEW = 40 /* sequences of which every row is compared */ };

enum { RAGGED = 0 };
enum keys { NOISE, EQUAL_KEYS, LARGE_KEYS /* products of up to 1e4 */ };
enum where { EVERYWHERE, CPU_ALONE /* too much for the emulated GPU */ };

/* heads, KV heads, head size, page size; types: of the device */
#define SHAPE(heads, kv_heads, page) heads, kv_heads, 64, page

static const struct field_row {
	const char *name;
	attune_shape s;
	struct {
		int count, query, seq;
	} group[MOST_GROUPS];
	int ladder;         /* also one sequence for each query length from 1 to this */
	int pages;          /* entries go round these many pages; 0: each has its own */
	long long page_gap; /* elements from one page to the next; 0: none are left out */
	enum keys keys;
	enum where where;
} rows[] = {
	// clang-format off
	{ "rows without keys", { SHAPE(4, 2, 16), .causal = 1 },
	  .group = { { 1, 5, 3 }, { 1, 40, 17 }, { 1, 5, 0 }, { 1, 1, 40 } } },
	{ "rows without keys, sinks", { SHAPE(4, 2, 16), .causal = 1, .has_sinks = 1 },
	  .group = { { 1, 5, 0 }, { 1, 5, 3 }, { 1, 40, 17 }, { 2, 1, 0 } } },
	{ "rows without keys, no mask", { SHAPE(4, 2, 16), .causal = 0 },
	  .group = { { 1, 5, 0 }, { 1, 5, 3 }, { 1, 40, 17 }, { 1, 9, 0 } } },
	{ "q300s3", { SHAPE(2, 1, 16), .causal = 1 }, .group = { { 1, 300, 3 } }, .where = CPU_ALONE },
	{ "no query in the batch", { SHAPE(4, 2, 16), .causal = 1 }, .group = { { 3, 0, 100 } } },
	{ "empty sequences", { SHAPE(4, 2, 16), .causal = 1 },
	  .group = { { 2, 0, 100 }, { 1, 1, 0 }, { 1, 1, 700 }, { 1, 0, 0 }, { 1, 30, 30 } } },
	{ "FA#2711: the table's last row is short", { SHAPE(4, 2, 16), .causal = 1, .has_alibi = 1, .has_sinks = 1 },
	  .group = { { 7, 1, 500 }, { 1, 1, 1 } } },
	{ "softcap 50, products of 1e4", { SHAPE(4, 2, 16), .causal = 1, .softcap = 50, .scale = 1 },
	  .group = { { 1, 1, 300 }, { 1, 20, 64 } }, .keys = LARGE_KEYS },
	{ "a window below a page, draft rows", { SHAPE(4, 2, 16), .causal = 1, .window = 5 },
	  .group = { { 1, 4, 100 }, { 1, 8, 64 }, { 1, 1, 33 }, { 1, 12, 50 } } },
	{ "a window above the sequence", { SHAPE(4, 2, 16), .causal = 1, .window = 1000 },
	  .group = { { 1, 4, 100 }, { 1, 40, 70 } } },
	{ "a window without a mask", { SHAPE(4, 2, 16), .window = 20 },
	  .group = { { 1, 4, 100 }, { 1, 40, 70 } } },
	{ "pages of 1", { SHAPE(4, 2, 1), .causal = 1 }, .group = { { 1, 1, 100 }, { 1, 20, 70 } } },
	{ "pages of 3", { SHAPE(4, 2, 3), .causal = 1 }, .group = { { 1, 1, 100 }, { 1, 20, 70 } } },
	{ "pages of 8", { SHAPE(4, 2, 8), .causal = 1 }, .group = { { 1, 1, 100 }, { 1, 20, 70 } } },
	{ "pages of 48", { SHAPE(4, 2, 48), .causal = 1 }, .group = { { 1, 1, 100 }, { 1, 20, 70 } } },
	{ "pages of 64", { SHAPE(4, 2, 64), .causal = 1 }, .group = { { 1, 1, 100 }, { 1, 20, 70 } } },
	{ "pages of 128", { SHAPE(4, 2, 128), .causal = 1 }, .group = { { 1, 1, 300 }, { 1, 20, 70 } } },
	{ "pages of 544", { SHAPE(4, 2, 544), .causal = 1 }, .group = { { 1, 1, 600 }, { 1, 20, 70 } } },
	{ "pages of 1056", { SHAPE(4, 2, 1056), .causal = 1 }, .group = { { 1, 1, 1100 }, { 1, 20, 70 } } },
	{ "group 1", { SHAPE(2, 2, 16), .causal = 1 }, .group = { { 1, 1, 100 }, { 1, 3, 40 }, { 1, 20, 70 } } },
	{ "group 3", { SHAPE(6, 2, 16), .causal = 1 }, .group = { { 1, 1, 100 }, { 1, 3, 40 }, { 1, 20, 70 } } },
	{ "group 5, sinks", { SHAPE(5, 1, 16), .causal = 1, .has_sinks = 1 }, .group = { { 1, 1, 100 }, { 1, 3, 40 }, { 1, 20, 70 } } },
	{ "group 6, sinks", { SHAPE(6, 1, 16), .causal = 1, .has_sinks = 1 }, .group = { { 1, 1, 100 }, { 1, 3, 40 }, { 1, 20, 70 } } },
	{ "group 7", { SHAPE(7, 1, 16), .causal = 1 }, .group = { { 1, 1, 100 }, { 1, 3, 40 }, { 1, 20, 70 } } },
	{ "group 16", { SHAPE(16, 1, 16), .causal = 1 }, .group = { { 1, 1, 100 }, { 1, 3, 40 }, { 1, 20, 70 } } },
	{ "group 71", { SHAPE(71, 1, 16), .causal = 1 }, .group = { { 1, 1, 40 }, { 1, 9, 20 } } },
	{ "queries of 1 to 9", { SHAPE(4, 2, 16), .causal = 1 }, .group = { { 1, 1, 90 } }, .ladder = 9 },
	{ "queries of 1 to 300", { SHAPE(2, 1, 16), .causal = 1 }, .group = { { 0 } }, .ladder = 300, .where = CPU_ALONE },
	{ "65,535 decodes", { SHAPE(1, 1, 16), .causal = 1 }, .group = { { 65535, 1, 3 } }, .pages = 1, .where = CPU_ALONE },
	{ "65,536 decodes", { SHAPE(1, 1, 16), .causal = 1 }, .group = { { 65536, 1, 3 } }, .pages = 1, .where = CPU_ALONE },
	{ "65,537 decodes", { SHAPE(1, 1, 16), .causal = 1 }, .group = { { 65537, 1, 3 } }, .pages = 1, .where = CPU_ALONE },
	{ "70,000 decodes", { SHAPE(1, 1, 16), .causal = 1 }, .group = { { 70000, 1, 3 } }, .pages = 1, .where = CPU_ALONE },
	{ "2^20 + 1 keys", { SHAPE(2, 1, 16), .causal = 1 }, .group = { { 1, 1, (1 << 20) + 1 } }, .pages = 509, .where = CPU_ALONE },
	{ "100,000 equal keys", { SHAPE(2, 1, 16), .causal = 1 }, .group = { { 1, 1, 100000 }, { 1, 9, 100000 } }, .pages = 509,
	  .keys = EQUAL_KEYS, .where = CPU_ALONE },
	{ "pages beyond 2^31 and 2^32 elements", { SHAPE(2, 1, 16), .causal = 1 }, .group = { { 1, 1, 40 }, { 1, 20, 33 } },
	  .page_gap = 1ll << 30, .where = CPU_ALONE },
	// clang-format on
};

/* ---- a batch in memory ----------------------------------------------------------------------- */

enum { OUT, Q, K, V, TABLE, STARTS, LENS, SINKS, SLOPES, NUM_ARRAYS };

struct world {
	attune_shape s;
	attune_batch b;
	const struct field_row *row;
	void *host[NUM_ARRAYS], *device[NUM_ARRAYS];
	size_t bytes[NUM_ARRAYS];
	attune_tensors h, d; /* of the host, of the device */
};

static struct device dev;
static unsigned long long seed;

static float noise(void) /* -1 .. 1 */
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (float)(int)(seed >> 40) / 8388608.f - 1.f;
}

static void ok(enum attune_status status)
{
	if (status)
		fail_msg("%s", attune_last_error());
}

/* Of pages that nobody touches no memory is used. */
static void add_array(struct world *w, int which, size_t bytes)
{
	w->bytes[which] = bytes;
	w->host[which] = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(w->host[which] != MAP_FAILED);
	w->device[which] = w->host[which];
	if (dev.info.backend == BACKEND_GPU)
		ok(dev.ops->alloc(&dev, &w->device[which], bytes + 16));
}

static int num_seqs_of(const struct field_row *r)
{
	int n = r->ladder;
	for (int g = 0; g < MOST_GROUPS; g++)
		n += r->group[g].count;
	return n;
}

static void lengths(struct world *w)
{
	const struct field_row *r = w->row;
	const int n = num_seqs_of(r);
	add_array(w, STARTS, ((size_t)n + 1) * sizeof(int32_t));
	add_array(w, LENS, (size_t)n * sizeof(int32_t));
	int32_t *start = w->host[STARTS], *len = w->host[LENS];
	int i = 0;
	for (int g = 0; g < MOST_GROUPS; g++)
		for (int k = 0; k < r->group[g].count; k++, i++) {
			start[i + 1] = start[i] + r->group[g].query;
			len[i] = r->group[g].seq;
		}
	for (int query = 1; query <= r->ladder; query++, i++) {
		start[i + 1] = start[i] + query;
		len[i] = query + query % 7;
	}
	w->b = (attune_batch){ n, start, len };
}

static int pages_of(const attune_shape *s, int tokens)
{
	return (tokens + s->page_size - 1) / s->page_size;
}

static float key_value(enum keys how, int d)
{
	return how == EQUAL_KEYS ? 0.01f * (float)(d % 5) : how == LARGE_KEYS ? 12 * noise() : noise();
}

static void put_slots(struct world *w, int page, int slots)
{
	const attune_shape *s = &w->s;
	for (int slot = 0; slot < slots; slot++)
		for (int h = 0; h < s->num_kv_heads; h++)
			for (int d = 0; d < s->head_size; d++) {
				const long long at = page * w->h.k_page_stride +
						     slot * w->h.k_slot_stride +
						     h * w->h.k_head_stride + d;
				value_put(s->kv_dtype, w->host[K], at, key_value(w->row->keys, d));
				value_put(s->kv_dtype, w->host[V], at, noise());
			}
}

static void make_cache(struct world *w)
{
	const attune_shape *s = &w->s;
	const long long page = (long long)s->page_size * s->num_kv_heads * s->head_size;
	int used = 1, longest = 1;
	for (int i = 0; i < w->b.num_seqs; i++) {
		const int n = pages_of(s, w->b.seq_lens[i]);
		used += w->row->pages ? 0 : n;
		longest = n > longest ? n : longest;
	}
	used += w->row->pages;
	w->h.k_page_stride = w->h.v_page_stride = w->row->page_gap ? w->row->page_gap : page;
	w->h.k_slot_stride = w->h.v_slot_stride = s->num_kv_heads * s->head_size;
	w->h.k_head_stride = w->h.v_head_stride = s->head_size;
	w->h.block_table_stride = longest;
	const size_t bytes = (size_t)(((used - 1) * w->h.k_page_stride + page) * dtype_bytes(s->kv_dtype));
	add_array(w, K, bytes);
	add_array(w, V, bytes);
	int seq, last, next = used;
	batch_table(&w->b, s->page_size, &seq, &last);
	add_array(w, TABLE, ((size_t)seq * (size_t)longest + (size_t)last) * sizeof(int32_t));
	for (int p = 0; p < used; p++) {
		const long long at = p * w->h.k_page_stride * dtype_bytes(s->kv_dtype);
		memset((char *)w->host[K] + at, 0xff, (size_t)(page * dtype_bytes(s->kv_dtype)));
		memset((char *)w->host[V] + at, 0xff, (size_t)(page * dtype_bytes(s->kv_dtype)));
	}
	for (int p = 1; p <= w->row->pages; p++)
		put_slots(w, p, s->page_size);
	int32_t *table = w->host[TABLE];
	for (int i = 0; i < w->b.num_seqs; i++)
		for (int p = 0; p < pages_of(s, w->b.seq_lens[i]); p++) {
			const int left = w->b.seq_lens[i] - p * s->page_size;
			table[(size_t)i * (size_t)longest + (size_t)p] =
			    w->row->pages ? 1 + p % w->row->pages : --next;
			if (!w->row->pages)
				put_slots(w, next, left < s->page_size ? left : s->page_size);
		}
}

static void make_world(struct world *w, const struct field_row *r)
{
	memset(w, 0, sizeof *w);
	seed = 7;
	w->row = r;
	w->s = r->s;
	w->s.dtype = w->s.kv_dtype = dev.info.backend == BACKEND_GPU ? ATTUNE_BF16 : ATTUNE_F32;
	lengths(w);
	make_cache(w);
	const size_t heads = (size_t)w->s.num_query_heads, head = (size_t)w->s.head_size;
	const size_t values = (size_t)w->b.query_start[w->b.num_seqs] * heads * head;
	add_array(w, OUT, values * (size_t)dtype_bytes(w->s.dtype));
	add_array(w, Q, values * (size_t)dtype_bytes(w->s.dtype));
	add_array(w, SINKS, heads * sizeof(float));
	add_array(w, SLOPES, heads * sizeof(float));
	memset(w->host[OUT], 0xff, w->bytes[OUT]);
	for (size_t i = 0; i < values; i++)
		value_put(w->s.dtype, w->host[Q], (long long)i,
			  r->keys == LARGE_KEYS ? 12 * noise() : noise());
	for (size_t i = 0; i < heads; i++) {
		((float *)w->host[SINKS])[i] = noise();
		((float *)w->host[SLOPES])[i] = 0.01f * (float)(i + 1);
	}
	w->h.q_token_stride = w->h.out_token_stride = (int64_t)(heads * head);
	w->h.q_head_stride = w->h.out_head_stride = (int64_t)head;
	w->d = w->h;
	for (int i = 0; i < 2; i++) {
		attune_tensors *t = i ? &w->d : &w->h;
		void *const *p = i ? w->device : w->host;
		t->out = p[OUT], t->q = p[Q], t->k_cache = p[K], t->v_cache = p[V];
		t->block_table = p[TABLE], t->query_start = p[STARTS], t->seq_lens = p[LENS];
		t->sinks = p[SINKS], t->alibi_slopes = p[SLOPES];
	}
	for (int i = 0; i < NUM_ARRAYS && dev.info.backend == BACKEND_GPU; i++)
		if (w->bytes[i])
			ok(dev.ops->put(&dev, w->device[i], w->host[i], w->bytes[i]));
}

static void free_world(struct world *w)
{
	for (int i = 0; i < NUM_ARRAYS; i++) {
		if (w->device[i] != w->host[i])
			dev.ops->release(&dev, w->device[i]);
		munmap(w->host[i], w->bytes[i] + 1);
	}
}

/* ---- a run and its rows ------------------------------------------------------------------------ */

static void run_op(struct world *w, const attune_op *op)
{
	attune_plan plan;
	void *workspace = NULL;
	ok(attune_plan_batch(op, &w->b, &plan));
	ok(dev.ops->alloc(&dev, &workspace, plan.workspace + 16));
	ok(attune_run(op, &plan, &w->d, workspace, plan.workspace, dev.ops->stream(&dev)));
	ok(dev.ops->wait(&dev, dev.ops->stream(&dev)));
	if (dev.info.backend == BACKEND_GPU)
		ok(dev.ops->get(&dev, w->host[OUT], w->device[OUT], w->bytes[OUT]));
	dev.ops->release(&dev, workspace);
}

static void fetch_host(const struct kv_source *from, int is_v, int page, int slot, int kv_head,
		       double *row)
{
	const struct kv_place at = kv_place(from->args, from->shape, is_v, page, slot, kv_head);
	for (int d = 0; d < from->shape->head_size; d++)
		row[d] = value_of(from->shape->kv_dtype,
				  is_v ? from->args->v_cache : from->args->k_cache, at.first + d);
}

static void check_row(const struct world *w, const attune_shape *s, int seq, int token, int head)
{
	double want[64], mass[64];
	struct attune_call call;
	call_from_tensors(&call, s, &w->h, w->b.num_seqs);
	call.args.window = s->window;
	const struct kv_source from = { .fetch = fetch_host,
					.args = &call.args,
					.shape = s,
					.scales = &call.more,
					.mass = mass };
	reference_row_from(&from, seq, token, head, want);
	const long long at = (w->b.query_start[seq] + token) * w->h.out_token_stride +
			     head * w->h.out_head_stride;
	for (int d = 0; d < s->head_size; d++) {
		const double got = value_of(s->dtype, w->host[OUT], at + d);
		if (!(fabs(got - want[d]) <= check_tolerance(s, mass[d], want[d])))
			fail_msg("sequence %d, token %d, head %d, dim %d: %g, %g is right", seq,
				 token, head, d, got, want[d]);
	}
}

/* Of many sequences some, of a long query the first and last token and some between. */
static void check(const struct world *w, const attune_shape *s)
{
	const int n = w->b.num_seqs, each = n > FEW ? n / FEW : 1;
	const long long values = w->b.query_start[n] * w->h.out_token_stride;
	for (long long i = 0; i < values; i++)
		if (!isfinite(value_of(s->dtype, w->host[OUT], i)))
			fail_msg("element %lld is not finite", i);
	for (int i = n - 1; i >= 0; i -= each) {
		const int query = w->b.query_start[i + 1] - w->b.query_start[i];
		for (int token = 0; token < query; token++)
			if (query < 10 || token + 1 == query || token % 13 == 0)
				for (int head = 0; head < s->num_query_heads; head += 1 + head / 8)
					check_row(w, s, i, token, head);
	}
}

enum which { ON_CPU, ON_GPU, ON_AMD /* the emulated one */, NUM_WHICH };
static const char *const which_names[] = { "cpu", "gpu", "emulated MI300X" };

static void open_device(enum which which)
{
	ok(which == ON_CPU ? device_open(&dev, "cpu") : gpu_open(&dev));
	if (which == ON_AMD)
		simt_pose(&dev, SIMT_MI300X);
}

/* Whether the library that is linked has code for the emulated GPU. */
static int gpu_is_emulated(void)
{
	ok(gpu_open(&dev));
	const int emulated = is_emulated(&dev);
	device_close(&dev);
	return emulated;
}

static void is_right(const struct field_row *r, enum which which)
{
	attune_context *ctx;
	attune_op *op;
	struct world w;
	open_device(which);
	make_world(&w, r);
	ok(attune_adopt(&ctx, &dev));
	ok(attune_prepare(ctx, &w.s, &op));
	run_op(&w, op);
	check(&w, &w.s);
	attune_release(op);
	attune_close(ctx);
	free_world(&w);
	device_close(&dev);
}

static void right_on_cpu(void **state)
{
	is_right(*state, ON_CPU);
}

static void right_on_gpu(void **state)
{
	is_right(*state, ON_GPU);
}

static void right_on_amd(void **state)
{
	is_right(*state, ON_AMD);
}

/* Two ops of one shape but for scale, softcap and window, in turn over the same tensors. */
static void ops_keep_their_scales(void **state)
{
	attune_context *ctx;
	attune_op *op[2];
	attune_shape s[2];
	struct world w;
	open_device(*state ? ON_GPU : ON_CPU);
	make_world(&w, &rows[RAGGED]);
	s[0] = s[1] = w.s;
	s[0].scale = 0.5f;
	s[1].scale = 0.03f, s[1].softcap = 2, s[1].window = 9;
	ok(attune_adopt(&ctx, &dev));
	for (int i = 0; i < 2; i++)
		ok(attune_prepare(ctx, &s[i], &op[i]));
	for (int turn = 0; turn < 4; turn++) {
		run_op(&w, op[turn % 2]);
		check(&w, &s[turn % 2]);
	}
	for (int i = 0; i < 2; i++)
		attune_release(op[i]);
	attune_close(ctx);
	free_world(&w);
	device_close(&dev);
}

/* Empty sequences beside long ones, at each number of segments that the kernel has. */
static void every_number_of_segments(void **state)
{
	static const struct field_row empty = { "", { SHAPE(4, 2, 16), .causal = 1 },
						.group = { { 1, 1, 0 }, { 1, 1, 2000 }, { 2, 0, 5 }, { 1, 3, 0 }, { 1, 2, 900 } },
						.ladder = 0 };
	const struct space *space = kernel_find(BACKEND_CPU, "segmented")->space;
	const struct axis *a = &space->axis[space->formula_axis];
	char path[] = "/tmp/t_field_bugs_XXXXXX";
	(void)state;
	close(mkstemp(path));
	setenv("ATTUNE_HEURISTICS", path, 1);
	for (int i = 0; i < a->num_values; i++) {
		FILE *f = fopen(path, "w");
		fprintf(f, "%schoice 0 segmented TILE_SIZE=64 STREAMS=4 WHOLE_PAGES=0 SEGMENTS=%d\n"
			   "tree prefill\nreturn 0\ntree decode\nreturn 0\n",
			override_head("cpu"), a->values[i]);
		fclose(f);
		is_right(&empty, ON_CPU);
	}
	unsetenv("ATTUNE_HEURISTICS");
	remove(path);
}

int main(void)
{
	static struct CMUnitTest tests[NUM_WHICH * COUNT(rows) + 3];
	static char names[COUNT(tests)][80];
	static const CMUnitTestFunction right[] = { right_on_cpu, right_on_gpu, right_on_amd };
	const int devices = gpu_is_emulated() ? NUM_WHICH : ON_AMD;
	size_t n = 0;
	for (int which = 0; which < devices; which++)
		for (size_t i = 0; i < COUNT(rows); i++) {
			if (which != ON_CPU && rows[i].where == CPU_ALONE)
				continue;
			snprintf(names[n], sizeof names[n], "%s: %s", which_names[which],
				 rows[i].name);
			tests[n] = (struct CMUnitTest){ names[n], right[which], NULL, NULL,
							(void *)(uintptr_t)&rows[i] };
			n++;
		}
	tests[n++] = (struct CMUnitTest){ "cpu: ops keep their scales", ops_keep_their_scales, NULL, NULL, NULL };
	tests[n++] = (struct CMUnitTest){ "gpu: ops keep their scales", ops_keep_their_scales, NULL, NULL, &dev };
	tests[n++] = (struct CMUnitTest){ "cpu: empty sequences at every number of segments",
					  every_number_of_segments, NULL, NULL, NULL };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("field_bugs", tests, n, NULL, NULL);
}
