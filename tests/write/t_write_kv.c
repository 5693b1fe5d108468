/* t_write_kv.c - attune_write_kv on the CPU and on a GPU, or the emulated one: the whole cache, which
 * was poisoned, bit by bit as a plain loop writes it. */
#include "kernels/launch/op.h"
#include "kernels/launch/run.h"
#include "kernels/spec/choice.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/support/gpu_here.h"

enum { POISON = 0xa5, MOST_SEQS = 16, PAGES = 40 };

/* The order of a cache's dimensions, outermost first: Page, Slot, Head. A small letter: its stride has
 * a gap. */
static const struct layout {
	const char *name, *order;
	int packed;  /* K and V of a slot are one row, as in vLLM from 0.26 on */
	int reverse; /* heads are from the last to the first */
	int classic;
} layouts[] = {
	{ "NHD", "PSH", 0, 0, 0 },
	{ "HND", "PHS", 0, 0, 0 },
	{ "slots outermost", "SPH", 0, 0, 0 },
	{ "heads outermost", "HPS", 0, 0, 0 },
	{ "packed NHD", "PSH", 1, 0, 0 },
	{ "packed HND", "PHS", 1, 0, 0 },
	{ "packed, heads outermost", "HPS", 1, 0, 0 },
	{ "with gaps", "psh", 0, 0, 0 },
	{ "heads in reverse", "PHs", 0, 1, 0 },
	{ "classic", "PH", 0, 0, 1 },
};

static const struct row {
	const char *name;
	enum attune_dtype dtype, kv_dtype;
	int heads, head_size, page_size, layout;
	int by_slots;
	const char *scales; /* of E4M3: none, one, heads, seqs */
} rows[] = {
	{ "decodes of F32", ATTUNE_F32, ATTUNE_F32, 3, 80, 5, 0, 0, NULL },
	{ "slots of F32", ATTUNE_F32, ATTUNE_F32, 2, 64, 16, 1, 1, NULL },
	{ "NHD by lengths", ATTUNE_BF16, ATTUNE_BF16, 8, 128, 16, 0, 0, NULL },
	{ "NHD by slots", ATTUNE_F16, ATTUNE_F16, 8, 128, 16, 0, 1, NULL },
	{ "HND", ATTUNE_BF16, ATTUNE_BF16, 2, 64, 32, 1, 0, NULL },
	{ "slots outermost", ATTUNE_BF16, ATTUNE_BF16, 4, 96, 8, 2, 1, NULL },
	{ "heads outermost", ATTUNE_BF16, ATTUNE_BF16, 4, 80, 1, 3, 0, NULL },
	{ "packed NHD", ATTUNE_F16, ATTUNE_F16, 3, 192, 7, 4, 1, NULL },
	{ "packed HND", ATTUNE_BF16, ATTUNE_BF16, 8, 128, 16, 5, 0, NULL },
	{ "packed, heads outermost", ATTUNE_BF16, ATTUNE_BF16, 5, 64, 48, 6, 1, NULL },
	{ "gaps", ATTUNE_BF16, ATTUNE_BF16, 7, 64, 3, 7, 0, NULL },
	{ "heads in reverse", ATTUNE_BF16, ATTUNE_BF16, 6, 96, 16, 8, 1, NULL },
	{ "wide tokens", ATTUNE_BF16, ATTUNE_BF16, 33, 256, 16, 0, 1, NULL },
	{ "one head", ATTUNE_F16, ATTUNE_F16, 1, 64, 16, 1, 0, NULL },
	{ "classic", ATTUNE_F16, ATTUNE_F16, 4, 80, 16, 9, 0, NULL },
	{ "classic by slots", ATTUNE_BF16, ATTUNE_BF16, 8, 128, 8, 9, 1, NULL },
	{ "E4M3, no scale", ATTUNE_BF16, ATTUNE_E4M3, 8, 128, 16, 0, 0, "none" },
	{ "E4M3, one scale", ATTUNE_F16, ATTUNE_E4M3, 4, 64, 16, 1, 1, "one" },
	{ "E4M3, scales of heads", ATTUNE_BF16, ATTUNE_E4M3, 3, 80, 24, 5, 1, "heads" },
	{ "E4M3, scales of sequences", ATTUNE_BF16, ATTUNE_E4M3, 2, 64, 16, 0, 0, "seqs" },
	{ "E4M3, slots and scales of sequences", ATTUNE_F16, ATTUNE_E4M3, 2, 96, 9, 7, 1, "seqs" },
};

static struct device dev;
static unsigned state_of_random;

static unsigned below(unsigned n)
{
	state_of_random = state_of_random * 1664525u + 1013904223u;
	return (state_of_random >> 8) % n;
}

static void ok(enum attune_status status)
{
	if (status)
		fail_msg("%s", attune_last_error());
}

/* ---- numbers ------------------------------------------------------------------------------ */

static float from_bf16(uint16_t h)
{
	const uint32_t bits = (uint32_t)h << 16;
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

static float from_f16(uint16_t h)
{
	const int exponent = h >> 10 & 31, fraction = h & 1023;
	const float size = exponent == 31 ? (fraction ? NAN : INFINITY)
			   : exponent     ? ldexpf((float)(1024 + fraction), exponent - 25)
					  : ldexpf((float)fraction, -24);
	return h >> 15 ? -size : size;
}

static double e4m3_value(int code)
{
	const int exponent = code >> 3, fraction = code & 7;
	return exponent ? ldexp(8 + fraction, exponent - 10) : ldexp(fraction, -9);
}

/* The nearest of all finite values; of two the one with an even code. */
static unsigned char to_e4m3(float x)
{
	const unsigned char sign = signbit(x) ? 0x80 : 0;
	const double size = fabs((double)x);
	int code = 0;
	if (isnan(x))
		return 0x7f;
	while (code < 0x7e && e4m3_value(code + 1) <= size)
		code++;
	if (code < 0x7e) {
		const double down = size - e4m3_value(code), up = e4m3_value(code + 1) - size;
		code += up < down || (up == down && code % 2);
	}
	return (unsigned char)(sign | code);
}

/* ---- a step -------------------------------------------------------------------------------- */

/* Host copies of what the device has. */
struct step {
	attune_shape shape;
	struct layout layout;
	attune_tensors t;
	int num_seqs, num_tokens, table_stride;
	int query_start[MOST_SEQS + 1], seq_lens[MOST_SEQS];
	int *table;
	int64_t *slots; /* or NULL */
	unsigned char *rows, *cache, *got;
	float *scales;
	size_t row_bytes, cache_bytes, num_scales;
	size_t k_at, v_at; /* elements: where K and V begin in the cache */
	size_t v_new_at;   /* elements: where V begins in the rows */
	void *on_device[8];
	int num_on_device;
};

/* Strides of the cache; returns its elements. */
static long long lay(struct step *s)
{
	const attune_shape *of = &s->shape;
	const int n[] = { PAGES, of->page_size, of->num_kv_heads };
	const int gap = of->kv_dtype == ATTUNE_E4M3 ? 16 : 8;
	int64_t stride[3] = { 0 }, next = (long long)of->head_size * (s->layout.packed ? 2 : 1);
	if (s->layout.classic)
		next *= of->page_size;
	for (int i = (int)strlen(s->layout.order) - 1; i >= 0; i--) {
		const char letter = s->layout.order[i];
		const int dimension = letter == 'P' || letter == 'p'   ? 0
				      : letter == 'S' || letter == 's' ? 1
								       : 2;
		next += letter >= 'a' ? gap : 0;
		stride[dimension] = next;
		next *= n[dimension];
	}
	s->k_at = (size_t)(s->layout.reverse ? stride[2] * (n[2] - 1) : 0);
	s->v_at = s->layout.packed ? (size_t)of->head_size : (size_t)next + s->k_at;
	if (s->layout.reverse)
		stride[2] = -stride[2];
	s->t.k_page_stride = s->t.v_page_stride = stride[0];
	s->t.k_slot_stride = s->t.v_slot_stride = stride[1];
	s->t.k_head_stride = s->t.v_head_stride = stride[2];
	return s->layout.packed ? next : 2 * next;
}

/* Lengths with empty queries, queries that are longer than their sequence, and no page twice. */
static void draw_lengths(struct step *s)
{
	static const struct {
		int query, seq;
	} v[] = {
		{ 1, 9 }, { 0, 12 }, { 1, 1 }, { 17, 30 }, { 0, 0 }, { 5, 3 }, { 1, 33 }, { 4, 0 }
	};
	const int most = PAGES / (int)COUNT(v) * s->shape.page_size;
	int page[PAGES];
	for (int i = 0; i < PAGES; i++)
		page[i] = i;
	for (int i = PAGES - 1; i > 0; i--) {
		const int j = (int)below((unsigned)i + 1), keep = page[i];
		page[i] = page[j];
		page[j] = keep;
	}
	s->num_seqs = COUNT(v);
	s->table_stride = PAGES / (int)COUNT(v);
	for (int i = 0; i < s->num_seqs; i++) {
		s->seq_lens[i] = v[i].seq < most ? v[i].seq : most;
		s->query_start[i + 1] = s->query_start[i] + v[i].query;
	}
	s->num_tokens = s->query_start[s->num_seqs] + 3; /* the last three are padding */
	s->table = malloc(sizeof page);
	assert_non_null(s->table);
	memcpy(s->table, page, sizeof page);
}

/* Distinct slots, a quarter of them negative. */
static void draw_slots(struct step *s)
{
	const int n = s->num_tokens, all = PAGES * s->shape.page_size;
	char *taken = calloc((size_t)all, 1);
	s->slots = malloc((size_t)n * sizeof *s->slots);
	assert_true(taken && s->slots);
	for (int i = 0; i < n; i++) {
		int slot = (int)below((unsigned)all);
		while (taken[slot])
			slot = (slot + 1) % all;
		taken[slot] = 1;
		s->slots[i] = below(4) ? slot : i % 2 ? -1 : INT64_MIN + slot;
	}
	free(taken);
}

/* Rows as a fused projection leaves them: q, K and V of a token side by side. */
static void draw_rows(struct step *s)
{
	const int row = s->shape.num_kv_heads * s->shape.head_size;
	const int bytes = dtype_bytes(s->shape.dtype);
	s->t.k_new_token_stride = s->t.v_new_token_stride = 3ll * row;
	s->t.k_new_head_stride = s->t.v_new_head_stride = s->shape.head_size;
	s->v_new_at = (size_t)row * 2;
	s->row_bytes = (size_t)s->num_tokens * (size_t)row * 3 * (size_t)bytes;
	s->rows = malloc(s->row_bytes);
	assert_non_null(s->rows);
	for (size_t i = 0; i < s->row_bytes; i++)
		s->rows[i] = (unsigned char)below(256);
}

/* Of K, then of V; `stride`s as told. Also powers of two and large ones. */
static void draw_scales(struct step *s, const char *which)
{
	static const float values[] = { 1, 0.37f, 0.0078125f, 2.5f, 49, 1e-5f, 3 };
	const int heads = s->shape.num_kv_heads, by_seq = !strcmp(which, "seqs");
	if (!strcmp(which, "none"))
		return;
	s->num_scales = (size_t)(by_seq ? s->num_seqs * heads : strcmp(which, "one") ? heads : 1);
	s->scales = malloc(2 * s->num_scales * sizeof *s->scales);
	assert_non_null(s->scales);
	for (size_t i = 0; i < 2 * s->num_scales; i++)
		s->scales[i] = values[(i + 1) % COUNT(values)];
	s->t.k_scale_seq_stride = s->t.v_scale_seq_stride = by_seq ? heads : 0;
	s->t.k_scale_head_stride = s->t.v_scale_head_stride = s->num_scales > 1 ? 1 : 0;
}

static void *give(struct step *s, const void *host, size_t bytes)
{
	void **to = &s->on_device[s->num_on_device++];
	assert_true(s->num_on_device <= (int)COUNT(s->on_device));
	ok(dev.ops->alloc(&dev, to, bytes));
	ok(dev.ops->put(&dev, *to, host, bytes));
	return *to;
}

/* To the device. */
static const int64_t *step_give(struct step *s)
{
	const size_t kv = (size_t)dtype_bytes(s->shape.kv_dtype);
	const size_t q = (size_t)dtype_bytes(s->shape.dtype);
	memset(s->cache, POISON, s->cache_bytes);
	char *cache = give(s, s->cache, s->cache_bytes), *rows_ = give(s, s->rows, s->row_bytes);
	s->t.size = sizeof s->t;
	s->t.k_cache = cache + s->k_at * kv;
	s->t.v_cache = cache + s->v_at * kv;
	s->t.k_new = rows_;
	s->t.v_new = rows_ + s->v_new_at * q;
	s->t.block_table = give(s, s->table, PAGES * sizeof *s->table);
	s->t.block_table_stride = s->table_stride;
	s->t.query_start = give(s, s->query_start, sizeof s->query_start);
	s->t.seq_lens = give(s, s->seq_lens, sizeof s->seq_lens);
	if (s->scales) {
		s->t.k_scale = give(s, s->scales, 2 * s->num_scales * sizeof *s->scales);
		s->t.v_scale = s->t.k_scale + s->num_scales;
	}
	return s->slots ? give(s, s->slots, (size_t)s->num_tokens * sizeof *s->slots) : NULL;
}

static void step_make(struct step *s, const struct row *r)
{
	memset(s, 0, sizeof *s);
	s->layout = layouts[r->layout];
	s->shape =
	    (attune_shape){ .size = sizeof s->shape,
			    .num_query_heads = r->heads,
			    .num_kv_heads = r->heads,
			    .head_size = r->head_size,
			    .page_size = r->page_size,
			    .dtype = r->dtype,
			    .kv_dtype = r->kv_dtype,
			    .kv_layout = s->layout.classic ? ATTUNE_KV_CLASSIC : ATTUNE_KV_STRIDED,
			    .causal = 1 };
	s->cache_bytes = (size_t)(lay(s) * dtype_bytes(r->kv_dtype));
	s->cache = malloc(s->cache_bytes);
	s->got = malloc(s->cache_bytes);
	assert_true(s->cache && s->got);
	draw_lengths(s);
	if (r->by_slots)
		draw_slots(s);
	draw_rows(s);
	if (r->scales)
		draw_scales(s, r->scales);
}

static void step_free(struct step *s)
{
	for (int i = 0; i < s->num_on_device; i++)
		dev.ops->release(&dev, s->on_device[i]);
	free(s->table);
	free(s->slots);
	free(s->rows);
	free(s->cache);
	free(s->got);
	free(s->scales);
}

/* ---- the plain loop ------------------------------------------------------------------------ */

static int seq_of(const struct step *s, int token)
{
	for (int i = 0; i < s->num_seqs; i++)
		if (token >= s->query_start[i] && token < s->query_start[i + 1])
			return i;
	return -1;
}

static int64_t slot_of(const struct step *s, int token)
{
	const int seq = seq_of(s, token), page_size = s->shape.page_size;
	if (s->slots)
		return s->slots[token];
	const int at = seq < 0 ? -1 : s->seq_lens[seq] - (s->query_start[seq + 1] - token);
	if (at < 0)
		return -1;
	return (int64_t)s->table[seq * s->table_stride + at / page_size] * page_size +
	       at % page_size;
}

/* Element d of a slot and head, in elements from the beginning of K or V. */
static int64_t element_at(const struct step *s, int64_t slot, int head, int d, int is_v)
{
	const int page_size = s->shape.page_size, x = 16 / dtype_bytes(s->shape.kv_dtype);
	const int64_t at = slot / page_size * s->t.k_page_stride + head * s->t.k_head_stride;
	const int64_t in_page = slot % page_size;
	if (!s->layout.classic)
		return at + in_page * s->t.k_slot_stride + d;
	return at + (is_v ? d * page_size + in_page : (d / x * page_size + in_page) * x + d % x);
}

static void write_element(struct step *s, int token, int64_t slot, int head, int d, int is_v)
{
	const attune_shape *of = &s->shape;
	const size_t bytes = (size_t)dtype_bytes(of->dtype);
	const int64_t from = token * s->t.k_new_token_stride + head * s->t.k_new_head_stride + d;
	const unsigned char *x = s->rows + ((is_v ? s->v_new_at : 0) + (size_t)from) * bytes;
	unsigned char *to =
	    s->cache + (int64_t)((is_v ? s->v_at : s->k_at) * (size_t)dtype_bytes(of->kv_dtype));
	to += element_at(s, slot, head, d, is_v) * dtype_bytes(of->kv_dtype);
	if (of->kv_dtype == of->dtype) {
		memcpy(to, x, bytes);
		return;
	}
	const int seq = seq_of(s, token);
	const float *scales = s->scales ? s->scales + (is_v ? s->num_scales : 0) : NULL;
	const float scale =
	    !scales ? 1
		    : scales[(s->t.k_scale_seq_stride ? seq : 0) * s->t.k_scale_seq_stride +
			     head * s->t.k_scale_head_stride];
	uint16_t h;
	memcpy(&h, x, sizeof h);
	*to = to_e4m3((of->dtype == ATTUNE_F16 ? from_f16(h) : from_bf16(h)) / scale);
}

static void write_plainly(struct step *s)
{
	for (int token = 0; token < s->num_tokens; token++) {
		const int64_t slot = slot_of(s, token);
		/* a scale of a sequence is for its tokens: padding behind all queries has none */
		if (slot < 0 || (s->t.k_scale_seq_stride && seq_of(s, token) < 0))
			continue;
		for (int i = 0; i < s->shape.num_kv_heads * s->shape.head_size * 2; i++)
			write_element(s, token, slot, i / 2 / s->shape.head_size,
				      i / 2 % s->shape.head_size, i % 2);
	}
}

/* ---- the tests ----------------------------------------------------------------------------- */

/* On a GPU by a graph. */
static void launch(const attune_op *op, const struct step *s, const int64_t *slots)
{
	struct graph *graph;
	double ns;
	ok(dev.ops->graph_begin(&dev));
	ok(attune_write_kv(op, s->num_seqs, s->num_tokens, &s->t, slots, dev.ops->stream(&dev)));
	ok(dev.ops->graph_end(&dev, &graph));
	ok(dev.ops->graph_play(&dev, graph, &ns));
	dev.ops->graph_free(&dev, graph);
}

static void writes_as_the_loop(struct step *s)
{
	attune_context *ctx;
	attune_op *op;
	ok(attune_adopt(&ctx, &dev));
	ok(attune_prepare(ctx, &s->shape, &op));
	launch(op, s, step_give(s));
	void *cache = s->on_device[0];
	ok(dev.ops->get(&dev, s->got, cache, s->cache_bytes));
	write_plainly(s);
	for (size_t i = 0; i < s->cache_bytes; i++)
		if (s->got[i] != s->cache[i])
			fail_msg("byte %zu of %zu: %02x, not %02x", i, s->cache_bytes, s->got[i],
				 s->cache[i]);
	attune_release(op);
	attune_close(ctx);
}

/* E4M3 and the classic layout are of GPUs. */
static int is_for_cpu(const struct row *r)
{
	return r->kv_dtype != ATTUNE_E4M3 && !layouts[r->layout].classic;
}

static void on(enum backend backend, const struct row *r)
{
	struct step s;
	state_of_random = 7;
	ok(backend == BACKEND_CPU ? device_open(&dev, "cpu") : gpu_open(&dev));
	step_make(&s, r);
	writes_as_the_loop(&s);
	step_free(&s);
	device_close(&dev);
}

static void as_the_loop(void **state)
{
	const struct row *r = *state;
	if (is_for_cpu(r))
		on(BACKEND_CPU, r);
}

int main(void)
{
	struct CMUnitTest tests[COUNT(rows)];
	int n = 0;
	for (size_t i = 0; i < COUNT(rows); i++)
		tests[n++] = (struct CMUnitTest){ rows[i].name, as_the_loop, NULL, NULL,
						  (void *)(uintptr_t)&rows[i] };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("write_kv", tests, (size_t)n, NULL, NULL);
}
