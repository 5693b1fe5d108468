/* bench_bounds.c - `attune bench --bounds`: how much slower a plan is that knows the longest
 * lengths alone. Captures LAYERS layers of a batch as a graph, in these ways:
 *
 *   exact   attune_plan_batch for the batch's own lengths: the reference of ratios
 *   xN      attune_plan_bounds for N times the longest sequence
 *
 * All graphs are replayed in turn, so drift affects all alike. A way's time is the median of TIMES
 * replays, its ratio the median of the ratios to the reference of the same turn. */
#include "bench.h"
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/measure/measure.h"
#include "harness/scenario/scenario.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 16, TIMES = 15 };
enum way { EXACT, FIRST_BOUND, NUM_WAYS = 5 };
static const char *const ways[NUM_WAYS] = { "exact", "x1", "x2", "x8", "x128" };
static const int factors[NUM_WAYS] = { 0, 1, 2, 8, 128 };

static const struct {
	const char *kind, *batch;
} rows[] = {
	// clang-format off
	{ "decodes", "q1s4k" },
	{ "decodes", "8q1s1k" },
	{ "decodes", "8q1s16k" },
	{ "decodes", "32q1s1k" },
	{ "decodes", "32q1s4k" },
	{ "decodes", "64q1s2k" },
	{ "decodes", "128q1s1k" },
	{ "decodes", "128q1s8k" },
	{ "decodes", "256q1s2k" },
	{ "decodes", "16q1s512_8q1s4k_4q1s16k_q1s64k" },
	{ "drafts", "8q4s4k" },
	{ "drafts", "32q4s2k" },
	{ "drafts", "64q2s8k" },
	{ "drafts", "16q8s16k" },
	{ "prefills", "q2k" },
	{ "prefills", "4q1k" },
	{ "prefills", "2q512s8k" },
	{ "mixed", "2q512s8k_30q1s16k" },
	{ "mixed", "q1k_64q1s2k" },
	{ "mixed", "8q128s2k_100q1s1k" },
	// clang-format on
};

struct bounded {
	struct bench_stage *stage;
	const struct workload *work;
	attune_op *op;
	int max_query, max_keys;
	attune_plan plan[NUM_WAYS];
	struct graph *graph[NUM_WAYS];
	double us[NUM_WAYS][TIMES];
};

/* ---- a graph of each way ------------------------------------------------------------------ */

static void measure_bounds(struct bounded *b)
{
	const attune_batch *v = &b->work->scenario->batch->view;
	for (int i = 0; i < v->num_seqs; i++) {
		const int query = v->query_start[i + 1] - v->query_start[i];
		b->max_query = query > b->max_query ? query : b->max_query;
		b->max_keys = v->seq_lens[i] > b->max_keys ? v->seq_lens[i] : b->max_keys;
	}
}

static enum attune_status plan_way(struct bounded *b, enum way way)
{
	const attune_batch *v = &b->work->scenario->batch->view;
	b->plan[way].size = sizeof b->plan[way];
	if (way == EXACT)
		return attune_plan_batch(b->op, v, &b->plan[way]);
	return attune_plan_bounds(b->op, v->num_seqs, v->query_start[v->num_seqs], b->max_query,
				  factors[way] * b->max_keys, &b->plan[way]);
}

static enum attune_status run_layers(struct bounded *b, enum way way)
{
	const struct bench_stage *st = b->stage;
	attune_tensors t = b->work->tensors;
	void *stream = st->dev.ops->stream(&b->stage->dev);
	enum attune_status status = ATTUNE_OK;
	for (int i = 0; i < LAYERS && !status; i++) {
		t.block_table = b->work->block_tables[i % b->work->sets];
		status = attune_run(b->op, &b->plan[way], &t, st->workspace, st->workspace_bytes,
				    stream);
	}
	return status;
}

static int capture_way(struct bounded *b, enum way way)
{
	struct device *dev = &b->stage->dev;
	enum attune_status status = plan_way(b, way);
	if (!status)
		status = dev->ops->graph_begin(dev);
	if (!status) {
		status = run_layers(b, way);
		const enum attune_status end = dev->ops->graph_end(dev, &b->graph[way]);
		status = status ? status : end;
	}
	return !status;
}

/* ---- replays ------------------------------------------------------------------------------ */

static int play_all(struct bounded *b)
{
	struct device *dev = &b->stage->dev;
	for (int k = -2; k < TIMES; k++) /* the first two warm up */
		for (int i = 0; i < NUM_WAYS; i++) {
			const enum way way = (enum way)((i + k + 2) % NUM_WAYS);
			double ns = NAN;
			if (dev->ops->graph_play(dev, b->graph[way], &ns))
				return 0;
			if (k >= 0)
				b->us[way][k] = ns / 1e3 / LAYERS;
		}
	return 1;
}

/* Of one kind of batch: sums of the logarithms of ratios, and the largest ratios. */
struct sums {
	const char *kind;
	int n;
	double log[NUM_WAYS], worst[NUM_WAYS];
};

static void print(struct bounded *b, const char *kind, struct table *table, struct sums *sums)
{
	char text[2 * MAX_PART_TEXT + 32];
	sums->kind = kind;
	sums->n++;
	for (int way = 0; way < NUM_WAYS; way++) {
		double ratio[TIMES];
		for (int k = 0; k < TIMES; k++)
			ratio[k] = b->us[way][k] / b->us[EXACT][k];
		const double mid = median(ratio, TIMES);
		if (attune_plan_text(b->op, &b->plan[way], text, sizeof text))
			snprintf(text, sizeof text, "%s", attune_last_error());
		table_add(table, "%s %s %s %.2f %.4f %.1f %s\n", kind,
			  b->work->scenario->batch_text, ways[way], median(b->us[way], TIMES), mid,
			  (double)b->plan[way].workspace / (1 << 20), text);
		sums->log[way] += log(mid);
		sums->worst[way] = fmax(sums->worst[way], mid);
	}
}

static void print_sums(const struct sums *sums, int n)
{
	for (int i = 0; i < n; i++)
		for (int way = FIRST_BOUND; way < NUM_WAYS && sums[i].n; way++)
			fprintf(stderr, "# %-8s %-6s %.4f x exact, worst %.4f, %d batches\n",
				sums[i].kind, ways[way], exp(sums[i].log[way] / sums[i].n),
				sums[i].worst[way], sums[i].n);
}

/* ---- a batch ------------------------------------------------------------------------------ */

static void release(struct bounded *b)
{
	struct device *dev = &b->stage->dev;
	for (int i = 0; i < NUM_WAYS; i++)
		if (b->graph[i])
			dev->ops->graph_free(dev, b->graph[i]);
	attune_release(b->op);
}

/* A batch of Llama 3.1 8B. The caller frees the batch; it is NULL if the text is wrong. */
static struct scenario scenario_of(const char *text, char *error, size_t size)
{
	return (struct scenario){ .batch_text = (char *)(uintptr_t)text,
				  .batch = batch_parse(text, error, size),
				  .shape = { .size = sizeof(attune_shape),
					     .num_query_heads = 32,
					     .num_kv_heads = 8,
					     .head_size = 128,
					     .page_size = 16,
					     .dtype = ATTUNE_BF16,
					     .kv_dtype = ATTUNE_BF16,
					     .causal = 1 },
				  .seed = 1 };
}

static int bound_batch(struct bench_stage *st, int row, const struct protocol *protocol,
		       struct table *table, struct sums *sums)
{
	char error[160];
	const char *text = rows[row].batch;
	struct scenario scenario = scenario_of(text, error, sizeof error);
	struct workload work = { 0 };
	struct bounded b = { .stage = st, .work = &work };
	int ok = scenario.batch &&
		 !workload_make(&work, &st->dev, &st->pool, &scenario, WORKLOAD_TIMED,
				protocol->cold_bytes) &&
		 !attune_prepare(st->ctx, &scenario.shape, &b.op);
	if (ok)
		measure_bounds(&b);
	for (int way = 0; ok && way < NUM_WAYS; way++)
		ok = capture_way(&b, (enum way)way);
	ok = ok && play_all(&b);
	if (ok)
		print(&b, rows[row].kind, table, sums);
	else
		complain("%s: %s", text, scenario.batch ? attune_last_error() : error);
	release(&b);
	workload_free(&work);
	batch_free(scenario.batch);
	return ok;
}

int bench_bounds(struct bench_stage *st, const struct protocol *protocol, int limit,
		 enum format format)
{
	static const char *const columns[] = { "kind",  "batch",         "way", "layer_us",
					       "ratio", "workspace_mib", "plan" };
	struct table *table = table_new(format, columns, COUNT(columns));
	struct sums sums[COUNT(rows)] = { 0 };
	const int n = limit && limit < (int)COUNT(rows) ? limit : (int)COUNT(rows);
	int done = 0, kind = 0;
	for (int i = 0; table && i < n && !interrupted; i++) {
		progress("bench", i, n);
		kind += i && strcmp(rows[i].kind, rows[i - 1].kind);
		done += bound_batch(st, i, protocol, table, &sums[kind]);
	}
	progress_end();
	if (table)
		table_print(table, stdout);
	print_sums(sums, COUNT(rows));
	return interrupted ? EXIT_INTERRUPTED : done == n ? EXIT_DONE : EXIT_CHECK;
}
