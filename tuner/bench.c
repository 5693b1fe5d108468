/* bench.c - `attune bench`: the tuned library and its baselines side by side on
 * scenarios of the database, measured now, in one race a scenario.
 *
 *   attune      what libattune does: attune_plan_batch, attune_run
 *   oracle      the plan that the database calls fastest; the reference of ratios
 *   best_fixed  one choice a phase for everything
 *   vllm_rule   vLLM's constants, nearest choices, one launch for a mixed batch
 *   default     the kernels' defaults
 *
 * Racers launch through the same device and tape, and rotate through the same
 * page sets (harness/measure.c). */
#include "policy.h"
#include "../kernels/run.h"
#include <argp.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RACE_ORACLE, RACE_LIBRARY, RACE_FIXED, RACE_VLLM, RACE_DEFAULT, NUM_RACERS };
static const struct {
	const char *name;
	enum policy policy;
} entries[NUM_RACERS] = {
	[RACE_ORACLE] = { "oracle", POLICY_ORACLE },
	[RACE_LIBRARY] = { "attune", POLICY_TREE },
	[RACE_FIXED] = { "best_fixed", POLICY_BEST_FIXED },
	[RACE_VLLM] = { "vllm_rule", POLICY_VLLM_RULE },
	[RACE_DEFAULT] = { "default", POLICY_DEFAULT },
};

struct options {
	const char *gpu, *db, *split, *preset;
	int limit;
	enum format format;
};

/* Code by binary, loaded once for the whole run. */
struct kept {
	char key[MAX_FLAGS + 32];
	struct code *code;
};
struct stage {
	struct device dev;
	attune_context *ctx;
	struct pool *pool;
	struct kept *kept;
	int num_kept;
	void *workspace;
	size_t workspace_bytes;
};

/* One racer: the library's plan, or a pick by hand. */
struct call {
	struct stage *stage;
	const struct workload *work;
	attune_op *op;
	attune_plan plan;
	struct {
		struct choice choice;
		struct loaded loaded;
		enum phase phase;
	} part[2];
	int num_parts;
};

static enum attune_status launch(void *arg, int set)
{
	struct call *c = arg;
	struct stage *st = c->stage;
	if (c->op) {
		attune_tensors t = c->work->tensors;
		t.block_table = c->work->block_tables[set];
		return attune_run(c->op, &c->plan, &t, st->workspace, st->workspace_bytes,
				  st->dev.ops->stream(&st->dev));
	}
	enum attune_status status = ATTUNE_OK;
	for (int i = 0; i < c->num_parts && !status; i++)
		status = choice_launch(&st->dev, &c->part[i].choice, &c->part[i].loaded, c->work,
				       set, c->part[i].phase, st->workspace, st->workspace_bytes);
	return status;
}

static struct code *load(struct stage *st, const struct kernel *k, const struct config *config,
			 const attune_shape *shape)
{
	char flags[MAX_FLAGS], key[MAX_FLAGS + 32];
	struct binary binary;
	struct code *code = NULL;
	binary_flags(flags, sizeof flags, k, config, shape);
	snprintf(key, sizeof key, "%s %s", k->name, flags);
	for (int i = 0; i < st->num_kept; i++)
		if (!strcmp(st->kept[i].key, key))
			return st->kept[i].code;
	if (jit_compile(&binary, k, flags, st->dev.info.arch)) {
		complain("%s: does not compile", key);
		return NULL;
	}
	if (st->dev.ops->load(&st->dev, &code, &binary.blob))
		complain("%s: %s", key, attune_last_error());
	jit_free(&binary);
	struct kept *more = realloc(st->kept, (size_t)(st->num_kept + 1) * sizeof *more);
	if (!code || !more) {
		if (code)
			st->dev.ops->unload(&st->dev, code);
		return NULL;
	}
	st->kept = more;
	snprintf(more[st->num_kept].key, sizeof more->key, "%s", key);
	more[st->num_kept++].code = code;
	return code;
}

static int add_part(struct call *c, const struct choice *choice, enum phase phase,
		    const attune_shape *shape)
{
	struct config config;
	const struct kernel *reduce = kernel_find(choice->kernel->backend, "reduce");
	struct loaded *l = &c->part[c->num_parts].loaded;
	config_default(&config, reduce->space);
	c->part[c->num_parts].choice = *choice;
	c->part[c->num_parts++].phase = phase;
	l->code = load(c->stage, choice->kernel, &choice->config, shape);
	l->reduce = load(c->stage, reduce, &config, shape);
	return l->code && l->reduce;
}

/* 0: the pick cannot be run. */
static int call_pick(struct call *c, const struct data *d, int s, const struct pick *p)
{
	const struct measured *m = &d->v[s];
	if (m->has[PHASE_PREFILL] && m->has[PHASE_DECODE] && !p->join)
		return p->prefill >= 0 && add_part(c, &d->choice[p->prefill], PHASE_ALL, &m->shape);
	if (m->has[PHASE_PREFILL] &&
	    (p->prefill < 0 || !add_part(c, &d->choice[p->prefill], PHASE_PREFILL, &m->shape)))
		return 0;
	if (m->has[PHASE_DECODE] &&
	    (p->decode < 0 || !add_part(c, &d->choice[p->decode], PHASE_DECODE, &m->shape)))
		return 0;
	return c->num_parts > 0;
}

/* The fastest of what was measured, as a pick. */
static struct pick oracle_pick(const struct data *d, int s)
{
	struct pick p = { -1, -1, 1 };
	int all;
	double parts = 0;
	const double whole = data_best(d, s, PHASE_ALL, &all);
	if (d->v[s].has[PHASE_PREFILL])
		parts += data_best(d, s, PHASE_PREFILL, &p.prefill);
	if (d->v[s].has[PHASE_DECODE])
		parts += data_best(d, s, PHASE_DECODE, &p.decode);
	if (d->v[s].has[PHASE_PREFILL] && d->v[s].has[PHASE_DECODE] && whole < parts)
		p = (struct pick){ all, -1, 0 };
	return p;
}

/* Runs all racers of a scenario and adds their rows; log ratios to sum[], how
 * many to count[]. */
static int race_scenario(struct stage *st, const struct data *d, int s,
			 struct pick *const picks[NUM_RACERS], const struct protocol *protocol,
			 struct table *table, double sum[NUM_RACERS], int count[NUM_RACERS])
{
	const struct measured *m = &d->v[s];
	struct scenario scenario;
	struct workload work;
	struct call call[NUM_RACERS] = { 0 };
	struct racer racer[NUM_RACERS] = { 0 };
	int who[NUM_RACERS], n = 0;
	struct facts facts;
	scenario_again(&scenario, m);
	if (workload_make(&work, &st->dev, &st->pool, &scenario, WORKLOAD_TIMED,
			  protocol->cold_bytes)) {
		complain("%s %s: %s", m->model, m->batch_text, attune_last_error());
		return 0;
	}
	scenario_facts(&facts, &m->shape, &m->batch->view);
	for (int i = 0; i < NUM_RACERS; i++) {
		struct call *c = &call[i];
		const struct pick best = oracle_pick(d, s);
		*c = (struct call){ .stage = st, .work = &work };
		int runs;
		if (i == RACE_LIBRARY)
			runs = !attune_prepare(st->ctx, &m->shape, &c->op) &&
			       !attune_plan_batch(c->op, &m->batch->view, &c->plan);
		else
			runs = (i == RACE_ORACLE || picks[i]) &&
			       call_pick(c, d, s, i == RACE_ORACLE ? &best : &picks[i][s]);
		if (!runs) {
			if (i == RACE_LIBRARY)
				complain("%s %s: %s", m->model, m->batch_text, attune_last_error());
			continue;
		}
		who[n] = i;
		racer[n++] = (struct racer){
			.call = launch, .arg = c, .bytes = facts.kv_bytes, .flops = facts.flops
		};
	}
	const struct race race = {
		.protocol = protocol, .v = racer, .n = n, .sets = work.sets, .seed = (unsigned)s + 1
	};
	const int done = n && !measure_race(&st->dev, &race);
	const double oracle = racer[0].m.median_us;
	for (int i = 0; done && i < n; i++) {
		const double us = racer[i].m.samples ? racer[i].m.median_us : NAN;
		table_text(table, m->batch_text);
		table_text(table, m->model);
		table_number(table, m->shape.page_size, 0);
		table_text(table, entries[who[i]].name);
		table_number(table, us, 2);
		table_number(table, us / oracle, 4);
		table_end_row(table);
		if (us > 0 && who[0] == RACE_ORACLE) {
			sum[who[i]] += log(us / oracle);
			count[who[i]]++;
		}
	}
	for (int i = 0; i < NUM_RACERS; i++)
		attune_release(call[i].op);
	workload_free(&work);
	return done;
}

static int choose_picks(const struct data *d, struct pick *picks[NUM_RACERS])
{
	for (int i = RACE_FIXED; i < NUM_RACERS; i++) {
		picks[i] = calloc((size_t)d->n, sizeof **picks);
		if (!picks[i])
			return 0;
		if (!policy_picks(d, entries[i].policy, NULL, picks[i])) {
			free(picks[i]);
			picks[i] = NULL; /* no such policy on this backend */
		}
	}
	return 1;
}

static int run(struct stage *st, const struct data *d, const struct options *o,
	       const struct protocol *protocol)
{
	static const char *const columns[] = { "batch",  "model",     "page_size",
					       "policy", "median_us", "ratio_to_oracle" };
	struct table *table = table_new(o->format, columns, COUNT(columns));
	struct pick *picks[NUM_RACERS] = { NULL };
	double sum[NUM_RACERS] = { 0 };
	int count[NUM_RACERS] = { 0 }, total = 0, done = 0, failed = 0;
	for (int s = 0; s < d->n; s++)
		total += !strcmp(o->split, "all") || !strcmp(d->v[s].split, o->split);
	if (o->limit && total > o->limit)
		total = o->limit;
	if (!table || !choose_picks(d, picks)) {
		complain("out of memory");
		return EXIT_CHECK;
	}
	for (int s = 0; s < d->n && done + failed < total && !interrupted; s++) {
		if (strcmp(o->split, "all") && strcmp(d->v[s].split, o->split))
			continue;
		progress("bench", done + failed, total);
		if (race_scenario(st, d, s, picks, protocol, table, sum, count))
			done++;
		else
			failed++;
	}
	progress_end();
	table_print(table, stdout);
	for (int i = 0; i < NUM_RACERS; i++) {
		if (count[i])
			fprintf(stderr, "# %-10s %.4f x oracle, geometric mean of %d scenarios\n",
				entries[i].name, exp(sum[i] / count[i]), count[i]);
		free(picks[i]);
	}
	if (!done)
		complain("no scenario of split '%s' could be run", o->split);
	return interrupted ? EXIT_INTERRUPTED : done && !failed ? EXIT_DONE : EXIT_CHECK;
}

enum { OPT_LIMIT = 256, OPT_PRESET };
static const struct argp_option rows[] = {
	{ "gpu", 'g', "NAME", 0, "cpu, h200, ... (this machine's)", 0 },
	{ "db", 'd', "FILE", 0, "database (results/NAME.sqlite)", 0 },
	{ "split", 's', "NAME", 0, "heldout (default), train, peers or all", 0 },
	{ "limit", OPT_LIMIT, "N", 0, "at most N scenarios", 0 },
	{ "preset", OPT_PRESET, "NAME", 0, "rounds as in a smoke, quick (default) or full sweep",
	  0 },
	{ "format", 'f', "NAME", 0, "table, tsv or json", 0 },
	{ 0 }
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	char *end;
	switch (key) {
	case 'g': o->gpu = arg; return 0;
	case 'd': o->db = arg; return 0;
	case 's': o->split = arg; return 0;
	case OPT_PRESET: o->preset = arg; return 0;
	case OPT_LIMIT:
		o->limit = (int)strtol(arg, &end, 10);
		if (*end || o->limit < 1)
			argp_error(state, "'%s' should be a number of scenarios, 1 or more", arg);
		return 0;
	case 'f':
		if (!format_parse(arg, &o->format))
			argp_error(state, "'%s' should be table, tsv or json", arg);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp help = {
	rows,
	parse_option,
	NULL,
	"Measure the tuned library against its baselines, side by side on this machine."
	"\vExample:\n  attune bench --gpu h200 --split heldout --format json",
	NULL,
	NULL,
	NULL
};

static int open_stage(struct stage *st, const char *gpu)
{
	enum attune_status status =
	    device_open(&st->dev, gpu ? strcmp(gpu, "cpu") ? "cuda" : "cpu" : NULL);
	if (status) {
		complain("%s", attune_last_error());
		return EXIT_NO_DEVICE;
	}
	if (gpu && strcmp(gpu, st->dev.info.gpu)) {
		complain("--gpu %s: this machine has %s (%s); name that, or run on the other", gpu,
			 st->dev.info.gpu, st->dev.info.name);
		return EXIT_NO_DEVICE;
	}
	st->workspace_bytes = MAX_PARTIAL_BYTES;
	if (attune_adopt(&st->ctx, &st->dev) ||
	    st->dev.ops->alloc(&st->dev, &st->workspace, st->workspace_bytes)) {
		complain("%s", attune_last_error());
		return EXIT_CHECK;
	}
	return EXIT_DONE;
}

static void close_stage(struct stage *st)
{
	if (!st->dev.ops)
		return;
	for (int i = 0; i < st->num_kept; i++)
		st->dev.ops->unload(&st->dev, st->kept[i].code);
	free(st->kept);
	pool_free(&st->dev, st->pool);
	if (st->workspace)
		st->dev.ops->release(&st->dev, st->workspace);
	attune_close(st->ctx);
	device_close(&st->dev);
}

int cmd_bench(int argc, char **argv)
{
	struct options o = { .split = "heldout", .preset = "quick" };
	struct stage st = { 0 };
	struct protocol protocol;
	char db[256], header[256];
	int code;
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&help, argc, argv, 0, NULL, &o);
	catch_signals();
	code = open_stage(&st, o.gpu);
	if (!code && !protocol_for(&protocol, &st.dev.info, o.preset)) {
		complain("--preset %s: smoke, quick or full is expected", o.preset);
		code = EXIT_USAGE;
	}
	if (!code) {
		default_paths(st.dev.info.gpu, db, header);
		struct data *d = data_load(o.db ? o.db : db, st.dev.info.gpu);
		code = d ? run(&st, d, &o, &protocol) : EXIT_USAGE;
		data_free(d);
	}
	close_stage(&st);
	return code;
}
