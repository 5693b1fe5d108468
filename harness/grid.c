/* grid.c - made-up batches that cover what an engine may send, evenly in logarithms.
 *
 * A family is a kind of batch with a range for each of its quantities. Its rows are
 * drawn one after the other: of some random points, the one that lies farthest from the
 * rows before (D. Mitchell, "Spectrally optimal sampling for distribution ray tracing",
 * SIGGRAPH 1991, section 4), so that few rows leave no gaps, whatever the limits cut
 * away. The generator is seeded: the same rows come out everywhere.
 *
 *   ROUND     values have three significant bits: 4 5 6 7 8 10 12 14 16 20 24 28 32 ...
 *   ODD       values are odd numbers in between
 *   BLOCKED   any value; only rows inside a block, which no row of train touches
 *   CACHED    any value; all prefills extend a context, as prefix caching makes them */
#include "harness.h"
#include "replay.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct range {
	double lo, hi;
};

enum { ROUND = 0, ODD = 1, BLOCKED = 2, CACHED = 4 };

struct family {
	const char *name, *split;
	int rows, flags;
	struct range decodes, query, kv; /* q of each, and their mean sequence length */
	double sigma, long_share;        /* largest spread; share of rows with few long ones */
	const char *settings;            /* JSON members, each followed by ", " */
	struct range prefills, tokens,
	    context; /* tokens of each; context.lo 0: a third have none */
};

struct grid {
	const char *name, *beside; /* beside: a set whose scenarios it does not repeat */
	const struct family *families;
	/* Dealt in order; others: heldout_shape; usual: of families with settings. */
	const char *const *models, *const *others, *const *usual;
	double max_kv_bytes, max_gflop;
};

enum { MAX_LENGTH = 128 * 1024, MAX_TOKENS = 32 * 1024, MAX_ROWS = 4096 };

#define K *1024.
#define DECODES(lo, hi, q_lo, q_hi, kv_lo, kv_hi) \
	.decodes = { lo, hi }, .query = { q_lo, q_hi }, .kv = { kv_lo, kv_hi }
#define SPREAD(most, share) .sigma = most, .long_share = share
#define PREFILLS(lo, hi, q_lo, q_hi, context_lo, context_hi) \
	.prefills = { lo, hi }, .tokens = { q_lo, q_hi }, .context = { context_lo, context_hi }
// clang-format off
static const struct family h200_families[] = {
	/*                                       decodes: how many, query each, mean KV      prefills: how many, their tokens, context */
	{ "decode", "train", 48, ROUND,          DECODES(1, 256,  1, 1,  16, 128 K) },
	{ "ragged", "train", 23, ROUND,          DECODES(2, 256,  1, 1, 128, 64 K),          SPREAD(1.3, 0) },
	{ "skewed", "train", 12, ROUND,          DECODES(8, 256,  1, 1, 160, 3 K),           SPREAD(0.4, 1) },
	{ "drafts", "train", 14, ROUND,          DECODES(1, 128,  2, 8, 128, 64 K),          SPREAD(1.0, 0) },
	{ "prompts", "train", 20, ROUND,                                                     PREFILLS(1, 32,  16, 32 K,   0, 0) },
	{ "chunk", "train", 15, ROUND,                                                       PREFILLS(1, 1,   16, 8 K,   64, 120 K) },
	{ "extends", "train", 8, CACHED,                                                     PREFILLS(1, 4,  200, 1100, 4 K, 114 K) },
	{ "mixed", "train", 33, ROUND,           DECODES(1, 256,  1, 1,  64, 64 K),          SPREAD(1.0, 0.1),  PREFILLS(1, 12, 16, 8 K, 0, 64 K) },
	{ "agent", "train", 8, CACHED,           DECODES(2, 22,   1, 1, 40 K, 120 K),        SPREAD(0.3, 0),    PREFILLS(1, 2, 250, 1050, 75 K, 114 K) },
	{ "drafted", "train", 6, ROUND,          DECODES(2, 64,   2, 8, 512, 32 K),          SPREAD(0.8, 0),    PREFILLS(1, 3, 64, 4 K, 0, 16 K) },

	{ "pages of 32", "train", 3, ROUND,      DECODES(2, 128,  1, 1, 128, 32 K),          SPREAD(0.8, 0), .settings = "\"page_size\": 32, ",  PREFILLS(1, 3, 64, 4 K, 0, 16 K) },
	{ "pages of 64", "train", 3, ROUND,      DECODES(2, 128,  1, 1, 128, 32 K),          SPREAD(0.8, 0), .settings = "\"page_size\": 64, ",  PREFILLS(1, 3, 64, 4 K, 0, 16 K) },
	{ "pages of 128", "train", 4, ROUND,     DECODES(2, 128,  1, 1, 128, 32 K),          SPREAD(0.8, 0), .settings = "\"page_size\": 128, ", PREFILLS(1, 3, 64, 4 K, 0, 16 K) },
	{ "f16", "train", 3, ROUND,              DECODES(2, 128,  1, 1, 128, 32 K),          SPREAD(0.8, 0), .settings = "\"dtype\": \"f16\", ",  PREFILLS(1, 3, 64, 4 K, 0, 16 K) },
	{ "hnd", "train", 2, ROUND,              DECODES(2, 128,  1, 1, 128, 32 K),          SPREAD(0.8, 0), .settings = "\"layout\": \"hnd\", ", PREFILLS(1, 3, 64, 4 K, 0, 16 K) },

	{ "decode", "heldout_blocked", 6, BLOCKED, DECODES(16, 128, 1, 1, 128, 16 K),        SPREAD(0.8, 0) },
	{ "prompts", "heldout_blocked", 3, BLOCKED,                                          PREFILLS(1, 3, 4 K, 8 K, 0, 0) },
	{ "mixed", "heldout_blocked", 8, BLOCKED, DECODES(16, 128, 1, 1, 128, 16 K),         SPREAD(1.0, 0),    PREFILLS(1, 4, 64, 4 K, 0, 16 K) },
	{ "drafts", "heldout_blocked", 3, BLOCKED, DECODES(16, 128, 2, 6, 512, 16 K),        SPREAD(0.8, 0) },

	{ "decode", "heldout_offgrid", 6, ODD,   DECODES(1, 250,  1, 1,  17, 100 K) },
	{ "ragged", "heldout_offgrid", 3, ODD,   DECODES(3, 250,  1, 1, 128, 32 K),          SPREAD(1.3, 0.3) },
	{ "drafts", "heldout_offgrid", 3, ODD,   DECODES(1, 99,   3, 7, 128, 32 K),          SPREAD(0.8, 0) },
	{ "prompts", "heldout_offgrid", 3, ODD,                                              PREFILLS(1, 16,  17, 20 K,  0, 0) },
	{ "chunk", "heldout_offgrid", 3, ODD,                                                PREFILLS(1, 1,   17, 8 K,  65, 100 K) },
	{ "mixed", "heldout_offgrid", 5, ODD,    DECODES(1, 250,  1, 1,  65, 32 K),          SPREAD(1.0, 0.1),  PREFILLS(1, 8, 17, 6 K, 0, 32 K) },

	{ "pages of 48", "heldout_offgrid", 2, ODD, DECODES(2, 128, 1, 1, 128, 32 K),        SPREAD(0.8, 0), .settings = "\"page_size\": 48, ",  PREFILLS(1, 3, 65, 4 K, 0, 16 K) },

	{ "crowd", "heldout_extrapolated", 5, ROUND, DECODES(320, 1 K, 1, 1, 64, 3 K),       SPREAD(0.8, 0) },
	{ "crowd, mixed", "heldout_extrapolated", 3, ROUND, DECODES(320, 640, 1, 1, 128, 2 K), SPREAD(0.8, 0),  PREFILLS(1, 8, 64, 4 K, 0, 2 K) },
	{ "book", "heldout_extrapolated", 4, ROUND, DECODES(1, 8, 1, 1, 160 K, 256 K) },
	{ "book, chunk", "heldout_extrapolated", 2, ROUND,                                   PREFILLS(1, 1, 64, 1 K, 144 K, 250 K) },

	{ "decode", "heldout_shape", 5, ROUND,   DECODES(1, 256,  1, 1,  64, 64 K),          SPREAD(0.8, 0) },
	{ "prompts", "heldout_shape", 2, ROUND,                                              PREFILLS(1, 8,   64, 8 K,   0, 0) },
	{ "chunk", "heldout_shape", 2, ROUND,                                                PREFILLS(1, 1,   64, 2 K, 1 K, 64 K) },
	{ "mixed", "heldout_shape", 5, ROUND,    DECODES(1, 200,  1, 1, 128, 16 K),          SPREAD(0.8, 0.1),  PREFILLS(1, 6, 64, 4 K, 0, 16 K) },
	{ 0 }
};
#undef K

static const char *const h200_models[] = {
	"llama3.1-8b@1",       "llama3.1-70b@4",      "llama3.1-8b@1",       "gpt-oss-120b-global@1",
	"llama3.1-8b@4",       "llama3.1-70b@8",      "llama3.1-8b@1",       "qwen3-14b@1",
	"llama3.1-70b@1",      "qwen3-next-80b@1",    "llama3.1-8b@1",       "gpt-oss-120b-local@1",
	"llama3.1-70b@8",      "qwen3-0.6b@1",        "llama3.1-8b@2",       "llama3.1-70b@2",
	"llama3.1-8b@1",       "gemma-3-27b-local@1", "qwen3-235b-a22b@4",   "llama3.1-8b@8",
	"llama3.1-70b@4",      "qwen3-14b@8",         "gemma-3-12b-local@2", "llama3.1-8b@1",
	"gemma-3-12b-global@1", NULL
};
static const char *const h200_others[] = { "phi-4-mini@1", "qwen3-235b-a22b@1", "qwen3-14b@2",
					   NULL };

static const char *const usual_models[] = { "llama3.1-8b@1", NULL };

static const struct grid grids[] = {
	{ "h200", "peers_h200", h200_families, h200_models, h200_others, usual_models, 6e9, 8e3 },
};

/* Whole batch sizes and a length band that no training row has. */
static const struct range decode_blocks[] = { { 20, 28 }, { 90, 110 } };
static const struct range length_block = { 4200, 5900 };

int rows_are_blocked(const struct row *rows, int n)
{
	double decodes = 0, kv = 0, longest = 0;
	for (int i = 0; i < n; i++) {
		if (rows[i].query <= DECODE_MAX_QUERY) {
			decodes++;
			kv += rows[i].seq;
		} else {
			longest = fmax(longest, rows[i].query);
		}
	}
	for (size_t i = 0; i < COUNT(decode_blocks); i++)
		if (decodes >= decode_blocks[i].lo && decodes <= decode_blocks[i].hi)
			return 1;
	if (decodes > 0)
		kv /= decodes;
	return (kv >= length_block.lo && kv <= length_block.hi) ||
	       (longest >= length_block.lo && longest <= length_block.hi);
}

char *rows_text(const struct row *rows, int num_rows)
{
	const size_t n = (size_t)num_rows;
	int32_t *query_start = calloc(2 * n + 1, sizeof *query_start);
	attune_batch b = { .num_seqs = num_rows, .query_start = query_start };
	char *text = NULL;
	if (query_start) {
		int32_t *seq_lens = query_start + n + 1;
		for (size_t i = 0; i < n; i++) {
			query_start[i + 1] = query_start[i] + rows[i].query;
			seq_lens[i] = rows[i].seq;
		}
		b.seq_lens = seq_lens;
		text = batch_format(&b);
	}
	free(query_start);
	return text;
}

/* ---- one row ---------------------------------------------------------------------- */
enum { D_DECODES, D_KV, D_QUERY, D_SPREAD, D_PREFILLS, D_TOKENS, D_CONTEXT, DIMENSIONS };

struct point {
	double at[DIMENSIONS]; /* 0 <= at < 1 */
};

static double random_share(unsigned long long *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (double)(*state >> 11) * 0x1p-53;
}

static double within(struct range r, double at)
{
	return r.lo * pow(r.hi / r.lo, at);
}

static int tidy(double v, int flags)
{
	int whole = (int)lround(v), unit = 1;
	if (flags & ODD)
		return whole ? whole | 1 : 0;
	if (flags & (BLOCKED | CACHED))
		return whole;
	while (whole / unit >= 8)
		unit *= 2;
	return (int)lround(v / unit) * unit;
}

/* Normal quantile to 5e-4 and better: C. Hastings, "Approximations for Digital
 * Computers", 1955, sheet 68. */
static double normal_quantile(double u)
{
	const double p = u < 0.5 ? u : 1 - u, t = sqrt(-2 * log(p));
	const double x = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
				 (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
	return u < 0.5 ? -x : x;
}

/* Evenly spaced quantiles of a log-normal distribution, in a drawn order. */
static void spread(struct row *rows, int n, double mean, double sigma, int query)
{
	const double most = fmax(mean, MAX_LENGTH);
	unsigned long long state = (unsigned long long)(n * 131 + (int)mean);
	for (int i = 0; i < n; i++) {
		double z = n > 1 ? normal_quantile((i + 0.5) / n) : 0;
		int seq = (int)lround(fmin(mean * exp(sigma * z - sigma * sigma / 2), most));
		rows[i] = (struct row){ query, seq > query ? seq : query, 0 };
	}
	for (int i = n - 1; i > 0 && sigma > 0; i--) {
		int j = (int)(random_share(&state) * (i + 1));
		struct row swap = rows[i];
		rows[i] = rows[j];
		rows[j] = swap;
	}
}

static int add_decodes(struct row *rows, const struct family *f, const struct point *p)
{
	const int n = tidy(within(f->decodes, p->at[D_DECODES]), f->flags);
	const int query = (int)lround(within(f->query, p->at[D_QUERY]));
	const double u = p->at[D_SPREAD], mean = within(f->kv, p->at[D_KV]);
	const int is_long = u < f->long_share, is_even = f->sigma == 0 || u > 0.85;
	const double sigma = f->sigma * (is_long ? 1 : (u - f->long_share) / 0.85);
	if (is_even)
		spread(rows, n, tidy(mean, f->flags), 0, query);
	else
		spread(rows, n, mean, sigma, query);
	/* one in 64, at least one, is 8 to 40 times as long */
	for (int i = 0; is_long && i <= n / 64; i++)
		rows[i * 64 % n].seq = (int)fmin(mean * (8 + 32 * u / f->long_share), MAX_LENGTH);
	return n;
}

static int add_prefills(struct row *rows, const struct family *f, const struct point *p)
{
	const int n = tidy(within(f->prefills, p->at[D_PREFILLS]), f->flags);
	const double u = p->at[D_CONTEXT], mean = within(f->tokens, p->at[D_TOKENS]);
	double context = 0;
	if (f->context.lo > 0)
		context = within(f->context, u);
	else if (f->context.hi > 0 && u > 1. / 3)
		context = within((struct range){ 64, f->context.hi }, u * 1.5 - 0.5);
	for (int i = 0; i < n; i++) {
		/* unequal ones: 0.6 to 1.4 of the mean */
		double share = n > 1 ? 0.6 + 0.8 * fmod(0.5 + i * 0.618, 1) : 1;
		int query = tidy(mean * share, f->flags), before = 0;
		if (query <= DECODE_MAX_QUERY)
			query = DECODE_MAX_QUERY + 1;
		if (i == n - 1 || f->flags & CACHED)
			before = tidy(context * (1 - 0.3 * i / n), f->flags);
		rows[i] = (struct row){ query, query + before, 0 };
	}
	return n;
}

/* ---- a set ------------------------------------------------------------------------ */
enum { CANDIDATES = 24, MAX_TRIES = 4000 };

struct out {
	const struct grid *grid;
	const struct models *models;
	const struct scenario_list *beside;
	FILE *f;
	char **batch; /* of the rows so far */
	struct point *point;
	int n, first;       /* first: of the family */
	int trained, drawn; /* rows for train so far; which one of ten is held out */
	int failed;
	unsigned long long state;
};

static int is_light(const struct out *o, const char *model, const struct batch *b)
{
	struct facts f;
	scenario_facts(&f, models_find(o->models, model), &b->view);
	return f.kv_bytes <= o->grid->max_kv_bytes && f.flops <= o->grid->max_gflop * 1e9;
}

/* The row of a point as text, the caller's to free. NULL when it is too heavy, on the
 * wrong side of the blocks, or there already. */
static char *row_text(struct out *o, const struct family *f, const struct point *p,
		      const char *model)
{
	static struct row rows[MAX_ROWS];
	int n = f->decodes.lo > 0 ? add_decodes(rows, f, p) : 0, decodes = n, tokens = 0, taken;
	struct batch *b;
	char *text;
	if (f->prefills.lo > 0)
		n += add_prefills(rows + n, f, p);
	for (int i = decodes; i < n; i++)
		tokens += rows[i].query;
	if (tokens > MAX_TOKENS || (strcmp(f->split, "heldout_extrapolated") &&
				    rows_are_blocked(rows, n) != !!(f->flags & BLOCKED)))
		return NULL;
	text = rows_text(rows, n);
	b = text ? batch_parse(text, (char[128]){ 0 }, 128) : NULL;
	o->failed |= !b;
	taken = !b || !is_light(o, model, b);
	for (int k = 0; k < o->n && !taken; k++)
		taken = !strcmp(o->batch[k], text);
	for (int k = 0; k < o->beside->n && !taken; k++)
		taken = !strcmp(o->beside->v[k].batch_text, text);
	batch_free(b);
	if (!taken)
		return text;
	free(text);
	return NULL;
}

/* Squared, to the nearest row of the family. */
static double lonely(const struct out *o, const struct point *p)
{
	double nearest = DIMENSIONS;
	for (int i = o->first; i < o->n; i++) {
		double sum = 0;
		for (int d = 0; d < DIMENSIONS; d++)
			sum += (p->at[d] - o->point[i].at[d]) * (p->at[d] - o->point[i].at[d]);
		nearest = fmin(nearest, sum);
	}
	return nearest;
}

/* Quantities that the family lacks do not tell its points apart. */
static struct point draw(struct out *o, const struct family *f)
{
	const double spans[DIMENSIONS] = {
		[D_DECODES] = f->decodes.hi - f->decodes.lo,
		[D_KV] = f->kv.hi - f->kv.lo,
		[D_QUERY] = f->query.hi - f->query.lo,
		[D_SPREAD] = f->sigma,
		[D_PREFILLS] = f->prefills.hi - f->prefills.lo,
		[D_TOKENS] = f->tokens.hi - f->tokens.lo,
		[D_CONTEXT] = f->context.hi - f->context.lo,
	};
	struct point p;
	for (int d = 0; d < DIMENSIONS; d++)
		p.at[d] = spans[d] > 0 ? random_share(&o->state) : 0;
	return p;
}

/* 0: the limits leave no room for one more. */
static int next_row(struct out *o, const struct family *f, const char *model)
{
	char *best = NULL;
	double most = -1;
	for (int i = 0, good = 0; i < MAX_TRIES && good < CANDIDATES && !o->failed; i++) {
		struct point p = draw(o, f);
		char *text = row_text(o, f, &p, model);
		double far = text ? lonely(o, &p) : -1;
		good += text != NULL;
		if (far > most) {
			most = far;
			free(best);
			best = text;
			o->point[o->n] = p;
		} else {
			free(text);
		}
	}
	if (best)
		o->batch[o->n++] = best;
	return best != NULL;
}

/* Of every ten rows that could be trained on, one is drawn to be held out. */
static const char *split_of(struct out *o, const struct family *f)
{
	if (strcmp(f->split, "train"))
		return f->split;
	if (o->trained % 10 == 0)
		o->drawn = o->trained + (int)(10 * random_share(&o->state));
	return o->trained++ == o->drawn ? "heldout_random" : f->split;
}

static void print_row(struct out *o, const struct family *f, const char *model)
{
	fprintf(o->f,
		"%s\t\t{\"split\": \"%s\", \"models\": [\"%s\"], %s\"from\": \"%s\",\n"
		"\t\t \"batch\": \"%s\"}",
		o->n > 1 ? ",\n" : "", split_of(o, f), model, f->settings ? f->settings : "",
		f->name, o->batch[o->n - 1]);
}

static void print_family(struct out *o, const struct family *f)
{
	const int is_shape = !strcmp(f->split, "heldout_shape");
	const char *const *models = f->settings ? o->grid->usual :
				    is_shape	? o->grid->others :
						  o->grid->models;
	int num_models = 0;
	while (models[num_models])
		num_models++;
	o->first = o->n;
	for (int i = 0; i < f->rows && next_row(o, f, models[o->n % num_models]); i++)
		print_row(o, f, models[(o->n - 1) % num_models]);
}

static void print_families(struct out *o)
{
	const struct family *family = o->grid->families;
	int total = 0;
	for (int i = 0; family[i].name; i++)
		total += family[i].rows;
	o->batch = calloc((size_t)total, sizeof *o->batch);
	o->point = calloc((size_t)total, sizeof *o->point);
	o->failed = !o->batch || !o->point;
	for (; family->name && !o->failed; family++)
		print_family(o, family);
	for (int i = 0; i < o->n; i++)
		free(o->batch[i]);
	free(o->batch);
	free(o->point);
}

int grid_print(const char *name, const char *dir, const struct models *models, FILE *f)
{
	struct scenario_list beside = { 0 };
	struct out o = { .models = models, .beside = &beside, .f = f, .state = 1 };
	char path[512];
	for (size_t i = 0; i < COUNT(grids); i++)
		if (!strcmp(grids[i].name, name))
			o.grid = &grids[i];
	if (!o.grid) {
		complain("no grid is called \"%s\"; it must be h200 or cpu", name);
		return 0;
	}
	snprintf(path, sizeof path, "%s/%s.json", dir, o.grid->beside ? o.grid->beside : "");
	if (o.grid->beside && !scenarios_load(&beside, path, models))
		return 0;
	fprintf(f,
		"{\n\t\"about\": \"Made by attune scenarios --grid %s; README.md says how.\",\n"
		"\t\"scenarios\": [\n",
		name);
	print_families(&o);
	fputs("\n\t]\n}\n", f);
	if (o.failed)
		complain("out of memory");
	scenarios_free(&beside);
	return !o.failed;
}
