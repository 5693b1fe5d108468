/* bench_graphs.c - `attune bench --replay`: captures a step of LAYERS layers as a CUDA graph and
 * replays it with other sequence lengths, in five ways:
 *
 *   recaptured  a graph for each set of lengths with the host's plan for it: the lower bound of
 *               all ways, and the reference of ratios
 *   frozen      one graph with the plan of the first set
 *   host        a graph for each plan; the host plans each step and picks the graph
 *   device      attune_record_plan, attune_record_run: one planner a step, kernels that branch,
 *               decodes by ring_list where legal (as attune_run does on captured streams)
 *   switch      the planner and a SWITCH node with a body for each plan
 *
 * For each set all ways run in turn, so drift affects all alike. A way's time on a set is the
 * median of TIMES replays; its result is the mean over the sets. */
#include "bench.h"
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/measure/measure.h"
#include "harness/scenario/scenario.h"
#include "kernels/attune_record.h"
#include "kernels/launch/op.h"
#include "kernels/replan/replan.h"
#include "kernels/ship/shipped.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 32, SETS = 24, TIMES = 5, LEAST = 256, MANY_PLANNERS = 33 };
enum way { RECAPTURED, FROZEN, HOST, DEVICE, SWITCH, NUM_WAYS };
static const char *const ways[NUM_WAYS] = { "recaptured", "frozen", "host", "device", "switch" };

/* The prompts are chunks, so a prefill part's sequence lengths change and its query lengths
 * stay. */
static const char *const batches[] = { "8q1s16k", "32q1s16k", "128q1s16k", "2q512s8k_30q1s16k" };

struct replay {
	struct bench_stage *stage;
	const struct workload *work;
	attune_op *op;
	int num_seqs, *lens[SETS]; /* lens[set][seq] */
	attune_bounds bounds;
	attune_plan plan[SETS]; /* of the host for each set */
	void *plan_memory, *leaves;
	size_t plan_bytes;
	struct code *leaf;
	/* distinct plans: the host's with a graph each, the recorded ones with a body each */
	attune_plan known[SETS], body[SETS];
	struct recorded_leaf of_body[SETS];
	int num_known, num_bodies;
	struct graph *by_plan[SETS], *by_set[SETS], *graph[NUM_WAYS];
	double us[NUM_WAYS][SETS], host_us;
};

/* ---- one step in each way ----------------------------------------------------------------- */

static enum attune_status step(struct replay *r, const attune_plan *plan, void *stream)
{
	enum attune_status status = ATTUNE_OK;
	for (int i = 0; i < LAYERS && !status; i++) {
		attune_tensors t = r->work->tensors;
		t.block_table = r->work->block_tables[i % r->work->sets];
		status = plan ? attune_run(r->op, plan, &t, r->stage->workspace,
					   r->stage->workspace_bytes, stream)
			      : attune_record_run(r->op, &r->bounds, r->plan_memory, &t,
						  r->stage->workspace, r->stage->workspace_bytes,
						  stream);
	}
	return status;
}

static enum attune_status plan_on_device(struct replay *r)
{
	struct device *dev = &r->stage->dev;
	return attune_record_plan(r->op, &r->bounds, r->work->tensors.query_start,
				  r->work->tensors.seq_lens, r->plan_memory, r->plan_bytes,
				  dev->ops->stream(dev));
}

static enum attune_status decide(void *arg, unsigned long long handle)
{
	struct replay *r = arg;
	struct device *dev = &r->stage->dev;
	const struct leaf_args a = { r->plan_memory, r->leaves, handle, r->num_bodies };
	const struct geometry g = { .x = 1, .y = 1, .z = 1, .threads = 32 };
	const enum attune_status status = plan_on_device(r);
	return status ? status
		      : dev->ops->launch(dev, r->leaf, &g, &a, sizeof a, dev->ops->stream(dev));
}

static enum attune_status body(void *arg, int i, void *stream)
{
	struct replay *r = arg;
	return step(r, &r->body[i], stream);
}

static enum attune_status record_way(struct replay *r, enum way way)
{
	struct device *dev = &r->stage->dev;
	const struct graph_switch s = { decide, body, r, r->num_bodies };
	if (way == SWITCH)
		return dev->ops->graph_switch(dev, &s);
	const enum attune_status status = way == DEVICE ? plan_on_device(r) : ATTUNE_OK;
	return status ? status : step(r, way == DEVICE ? NULL : &r->plan[0], dev->ops->stream(dev));
}

/* Captures one step: of `plan`, or if that is NULL of the way. */
static struct graph *record(struct replay *r, enum way way, const attune_plan *plan)
{
	struct device *dev = &r->stage->dev;
	struct graph *graph = NULL;
	enum attune_status status = dev->ops->graph_begin(dev);
	if (!status) {
		status = plan ? step(r, plan, dev->ops->stream(dev)) : record_way(r, way);
		const enum attune_status end = dev->ops->graph_end(dev, &graph);
		status = status ? status : end;
	}
	if (!status)
		return graph;
	complain("capture %s: %s", plan ? "of a plan" : ways[way], attune_last_error());
	if (graph)
		dev->ops->graph_free(dev, graph);
	return NULL;
}

/* ---- plans -------------------------------------------------------------------------------- */

static attune_batch batch_of(const struct replay *r, int set)
{
	attune_batch b = r->work->scenario->batch->view;
	b.seq_lens = r->lens[set];
	return b;
}

static int find_plan(const attune_plan *list, int n, const attune_plan *plan)
{
	for (int i = 0; i < n; i++)
		if (attune_plan_serves(&list[i], plan) == ATTUNE_SERVES_ALIKE)
			return i;
	return -1;
}

static struct recorded_leaf leaf_of(const attune_plan *plan)
{
	struct recorded_leaf leaf = { { -1, -1 }, { 0, 0 } };
	for (int i = 0; i < plan->num_parts; i++) {
		const attune_part *p = &plan->part[i];
		const int which =
		    p->max_query > DECODE_MAX_QUERY ? RECORDED_PREFILL : RECORDED_DECODE;
		leaf.choice[which] = p->choice;
		leaf.segments[which] = p->resolved > 1 ? p->resolved : 1;
	}
	return leaf;
}

static int make_plans(struct replay *r)
{
	for (int i = 0; i < SETS; i++) {
		const attune_batch b = batch_of(r, i);
		attune_plan recorded = { .size = sizeof recorded };
		r->plan[i].size = sizeof r->plan[i];
		if (attune_plan_batch(r->op, &b, &r->plan[i]) ||
		    attune_plan_recorded(r->op, &r->bounds, &b, &recorded)) {
			complain("%s", attune_last_error());
			return 0;
		}
		if (find_plan(r->known, r->num_known, &r->plan[i]) < 0)
			r->known[r->num_known++] = r->plan[i];
		if (find_plan(r->body, r->num_bodies, &recorded) < 0) {
			r->of_body[r->num_bodies] = leaf_of(&recorded);
			r->body[r->num_bodies++] = recorded;
		}
	}
	return 1;
}

/* Lengths within a set differ by at most a factor of two; from set to set they differ widely. */
static int make_lens(struct replay *r, unsigned long long seed)
{
	const attune_batch *b = &r->work->scenario->batch->view;
	for (int i = 0; i < SETS; i++) {
		r->lens[i] = calloc((size_t)b->num_seqs, sizeof *r->lens[i]);
		if (!r->lens[i])
			return 0;
		for (int s = 0; s < b->num_seqs; s++) {
			const int query = b->query_start[s + 1] - b->query_start[s];
			const double top = b->seq_lens[s], least = LEAST + query;
			/* each set has its own scale; consecutive sets differ widely */
			const double scale = least * pow(top / least, (i * 7 % SETS + 1.0) / SETS);
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			const double share = 0.5 + 0.5 * (double)(seed >> 11) / 9007199254740992.0;
			r->lens[i][s] = (int)fmax(query, scale * share);
		}
	}
	return 1;
}

static enum attune_status put_lens(struct replay *r, int set)
{
	struct device *dev = &r->stage->dev;
	return dev->ops->put(dev, (void *)(uintptr_t)r->work->tensors.seq_lens, r->lens[set],
			     (size_t)r->num_seqs * sizeof *r->lens[set]);
}

/* ---- replays ------------------------------------------------------------------------------ */

/* Plans on the host and finds the graph of that plan; adds the time to host_us. */
static struct graph *pick_graph(struct replay *r, int set)
{
	const attune_batch b = batch_of(r, set);
	attune_plan plan = { .size = sizeof plan };
	const double begin = 1e6 * seconds_now();
	if (attune_plan_batch(r->op, &b, &plan))
		return NULL;
	const int at = find_plan(r->known, r->num_known, &plan);
	r->host_us += 1e6 * seconds_now() - begin;
	return at < 0 ? NULL : r->by_plan[at];
}

static struct graph *graph_of(struct replay *r, enum way way, int set)
{
	return way == RECAPTURED ? r->by_set[set]
	       : way == HOST     ? pick_graph(r, set)
				 : r->graph[way];
}

static int play_set(struct replay *r, int set)
{
	struct device *dev = &r->stage->dev;
	double us[NUM_WAYS][TIMES];
	if (put_lens(r, set))
		return 0;
	for (int k = -1; k < TIMES; k++) /* the first warms up */
		for (int i = 0; i < NUM_WAYS; i++) {
			const enum way way = (enum way)((i + k + 1) % NUM_WAYS);
			struct graph *graph = graph_of(r, way, set);
			double ns = NAN;
			if (graph && dev->ops->graph_play(dev, graph, &ns))
				return 0;
			if (k >= 0)
				us[way][k] = ns / 1e3;
		}
	for (int way = 0; way < NUM_WAYS; way++)
		r->us[way][set] = isnan(us[way][0]) ? NAN : median(us[way], TIMES);
	return 1;
}

/* The time of one planner: the difference between a graph of many and a graph of one. */
static double planner_us(struct replay *r)
{
	struct device *dev = &r->stage->dev;
	double us[2] = { NAN, NAN };
	for (int i = 0; i < 2; i++) {
		const int n = i ? MANY_PLANNERS : 1;
		double played[TIMES], ns;
		struct graph *graph = NULL;
		if (dev->ops->graph_begin(dev))
			return NAN;
		for (int k = 0; k < n; k++)
			(void)plan_on_device(r);
		if (dev->ops->graph_end(dev, &graph))
			return NAN;
		for (int k = 0; k < TIMES; k++) {
			(void)dev->ops->graph_play(dev, graph, &ns);
			played[k] = ns / 1e3;
		}
		us[i] = median(played, TIMES);
		dev->ops->graph_free(dev, graph);
	}
	return (us[1] - us[0]) / (MANY_PLANNERS - 1);
}

/* ---- a batch ------------------------------------------------------------------------------ */

static int prepare(struct replay *r)
{
	struct device *dev = &r->stage->dev;
	const struct shipped *s = shipped_find(&dev->info, "leaf", "");
	const size_t leaf_bytes = sizeof r->of_body;
	const attune_batch *b = &r->work->scenario->batch->view;
	r->num_seqs = b->num_seqs;
	r->bounds.size = sizeof r->bounds;
	r->bounds.num_seqs = b->num_seqs;
	r->bounds.num_tokens = b->query_start[b->num_seqs];
	for (int i = 0; i < b->num_seqs; i++) {
		const int query = b->query_start[i + 1] - b->query_start[i];
		if (query > r->bounds.max_query)
			r->bounds.max_query = query;
	}
	if (attune_prepare(r->stage->ctx, &r->work->scenario->shape, &r->op) ||
	    attune_record_sizes(r->op, &r->bounds, &r->plan_bytes, NULL) ||
	    dev->ops->alloc(dev, &r->plan_memory, r->plan_bytes) ||
	    dev->ops->alloc(dev, &r->leaves, leaf_bytes) || !s ||
	    dev->ops->load(dev, &r->leaf, &s->blob)) {
		complain("%s", s ? attune_last_error() : "the library carries no GPU code");
		return 0;
	}
	return make_lens(r, 1) && make_plans(r) &&
	       !dev->ops->put(dev, r->leaves, r->of_body, leaf_bytes);
}

/* Leaves out ways that cannot be captured here; the reference must be. */
static int record_all(struct replay *r)
{
	for (int i = 0; i < r->num_known; i++)
		if (!(r->by_plan[i] = record(r, NUM_WAYS, &r->known[i])))
			return 0;
	for (int i = 0; i < SETS; i++)
		if (!(r->by_set[i] = record(r, NUM_WAYS, &r->plan[i])))
			return 0;
	r->graph[FROZEN] = record(r, FROZEN, NULL);
	r->graph[DEVICE] = record(r, DEVICE, NULL);
	r->graph[SWITCH] = record(r, SWITCH, NULL);
	return 1;
}

static void release(struct replay *r)
{
	struct device *dev = &r->stage->dev;
	for (int i = 0; i < SETS; i++) {
		if (r->by_plan[i])
			dev->ops->graph_free(dev, r->by_plan[i]);
		if (r->by_set[i])
			dev->ops->graph_free(dev, r->by_set[i]);
		free(r->lens[i]);
	}
	for (int i = 0; i < NUM_WAYS; i++)
		if (r->graph[i])
			dev->ops->graph_free(dev, r->graph[i]);
	dev->ops->unload(dev, r->leaf);
	dev->ops->release(dev, r->plan_memory);
	dev->ops->release(dev, r->leaves);
	attune_release(r->op);
}

static void print(const struct replay *r, struct table *table)
{
	const int graphs[NUM_WAYS] = { [RECAPTURED] = SETS,
				       [FROZEN] = 1,
				       [HOST] = r->num_known,
				       [DEVICE] = 1,
				       [SWITCH] = r->num_bodies };
	double mean[NUM_WAYS] = { 0 };
	for (int way = 0; way < NUM_WAYS; way++)
		for (int i = 0; i < SETS; i++)
			mean[way] += r->us[way][i] / SETS;
	for (int way = 0; way < NUM_WAYS; way++) {
		double worst = 0;
		for (int i = 0; i < SETS; i++)
			worst = fmax(worst, r->us[way][i] / r->us[RECAPTURED][i]);
		table_add(table, "%s %s %.1f %.4f %.3f %.2f %.2f %d\n",
			  r->work->scenario->batch_text, ways[way], mean[way],
			  mean[way] / mean[RECAPTURED], worst,
			  (mean[way] - mean[RECAPTURED]) / LAYERS,
			  way == HOST ? r->host_us / (SETS * (TIMES + 1)) : 0, graphs[way]);
	}
}

/* Separate pages for each layer where memory allows, as in a model: no layer finds another's pages
 * in a cache, however short the sequences. */
static size_t bytes_of_layers(const struct scenario *s, const struct protocol *protocol)
{
	struct facts facts;
	scenario_facts(&facts, &s->shape, &s->batch->view);
	const size_t bytes = (size_t)(LAYERS * facts.kv_bytes);
	return bytes > protocol->cold_bytes ? bytes : protocol->cold_bytes;
}

struct scenario bench_scenario(const char *text, char *error, size_t size)
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

static int replay_batch(struct bench_stage *st, const char *text, const struct protocol *protocol,
			struct table *table)
{
	char error[160];
	struct scenario scenario = bench_scenario(text, error, sizeof error);
	struct workload work;
	struct replay r = { .stage = st, .work = &work };
	int ok = scenario.batch != NULL;
	if (!ok)
		complain("%s: %s", text, error);
	if (ok && workload_make(&work, &st->dev, &st->pool, &scenario, WORKLOAD_TIMED,
				bytes_of_layers(&scenario, protocol))) {
		complain("%s: %s", text, attune_last_error());
		batch_free(scenario.batch);
		return 0;
	}
	ok = ok && prepare(&r) && record_all(&r);
	for (int i = 0; ok && i < SETS && !interrupted; i++) {
		progress(text, i, SETS);
		ok = play_set(&r, i);
	}
	progress_end();
	if (ok && !interrupted) {
		print(&r, table);
		fprintf(stderr, "# %s: the planner takes %.2f us%s\n", text, planner_us(&r),
			r.op->heuristic && r.op->heuristic->num_plugins
			    ? "; no plug-ins of the rules ran: one plans for its own lengths alone"
			    : "");
	} else if (!interrupted) {
		complain("%s: %s", text, attune_last_error());
	}
	release(&r);
	workload_free(&work);
	batch_free(scenario.batch);
	return ok;
}

int bench_replay(struct bench_stage *st, const struct protocol *protocol, enum format format)
{
	static const char *const columns[] = { "batch",       "way",      "step_us", "ratio",
					       "worst_ratio", "layer_us", "host_us", "graphs" };
	struct table *table = table_new(format, columns, COUNT(columns));
	int done = 0;
	if (st->dev.info.backend == BACKEND_CPU) {
		complain("--replay measures CUDA graphs; a CPU has none");
		return EXIT_NO_DEVICE;
	}
	for (size_t i = 0; table && i < COUNT(batches) && !interrupted; i++)
		done += replay_batch(st, batches[i], protocol, table);
	if (table)
		table_print(table, stdout);
	return interrupted                   ? EXIT_INTERRUPTED
	       : done == (int)COUNT(batches) ? EXIT_DONE
					     : EXIT_CHECK;
}
