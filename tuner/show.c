/* show.c - `attune show`: tables for a person. Which scenario is asked for, and who answers:
 * ways.c, why.c, lists.c. */
#include "policy.h"
#include "show.h"
#include <argp.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OPT_KERNELS = 256, OPT_BEST, OPT_WHY, OPT_PAGE, OPT_PHASE, OPT_CEILINGS, OPT_PEERS };

static const struct argp_option rows[] = {
	{ "gpu", 'g', "NAME", 0, "whose measurements: h200, cpu, ... (this machine's)", 0 },
	{ "db", 'd', "FILE", 0, "database (results/NAME.sqlite)", 0 },
	{ "header", 'H', "FILE", 0, "header that --why, --best and --peers explain", 0 },
	{ "model", 'm', "NAME@TP", 0, "model shape, as in llama3.1-8b@1", 0 },
	{ "batch", 'b', "BATCH", 0, "as in 2q2k_32q1s1k", 0 },
	{ "page-size", OPT_PAGE, "N", 0, "tokens of a page, where several were measured", 0 },
	{ "phase", OPT_PHASE, "PHASE", 0, "only one part's variants: prefill or decode", 0 },
	{ "why", OPT_WHY, NULL, 0, "only why the header picks what it picks, in any format", 0 },
	{ "best", OPT_BEST, NULL, 0, "every scenario's fastest plan beside the header's", 0 },
	{ "peers", OPT_PEERS, "FILE", OPTION_ARG_OPTIONAL,
	  "others' times beside the header's (scenarios/peers_NAME.tsv)", 0 },
	{ "kernels", OPT_KERNELS, NULL, 0, "kernels with their tunables and rules", 0 },
	{ "ceilings", OPT_CEILINGS, NULL, 0, "what the device gives at most, as it was measured",
	  0 },
	{ "format", 'f', "FORMAT", 0, FORMAT_WORDS, 0 },
	{ 0 }
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct show *o = state->input;
	switch (key) {
	case 'g': gpu_option(&o->gpu, arg, state); return 0;
	case 'd': o->db = arg; return 0;
	case 'H': o->header = arg; return 0;
	case 'm': o->model = arg; return 0;
	case 'b': o->batch = arg; return 0;
	case OPT_PAGE:
		o->page_size = atoi(arg);
		if (o->page_size < 1)
			argp_error(state, "--page-size '%s' should be 1 or more", arg);
		return 0;
	case OPT_PHASE:
		o->phase = !strcmp(arg, "prefill") ? PHASE_PREFILL : PHASE_DECODE;
		if (strcmp(arg, phase_name(o->phase)))
			argp_error(state, "--phase '%s' should be prefill or decode", arg);
		return 0;
	case OPT_WHY: o->what = SHOW_WHY; return 0;
	case OPT_BEST: o->what = SHOW_BEST; return 0;
	case OPT_PEERS:
		o->what = SHOW_PEERS;
		o->peers = arg;
		return 0;
	case OPT_KERNELS: o->what = SHOW_KERNELS; return 0;
	case OPT_CEILINGS: o->what = SHOW_CEILINGS; return 0;
	case 'f': format_option(&o->format, arg, state); return 0;
	case ARGP_KEY_END:
		if (o->what == SHOW_SCENARIO || o->what == SHOW_WHY)
			if (!o->model || !o->batch)
				argp_error(state, "--model and --batch say which scenario");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp help = {
	rows,
	parse_option,
	NULL,
	"What was measured, and why the header picks what it picks."
	"\vAs a table a batch is explained first: each comparison on its path through the trees "
	"with the value at hand, the action with what its formula comes to, runners-up, whether a "
	"feature lies outside of what was learned from, and the slowdown to expect. That works for "
	"batches that were never measured, by estimates. Then all ways that it was measured, "
	"fastest first; tsv and json have these alone unless --why is given. A mixed batch is "
	"listed as one launch, as composed plans measured whole, and as the sum "
	"of its parts measured apart (each prefill variant with the best decode variant and the "
	"other way round). mj is power_w x median_us, "
	"where power_of is alone, the choice's own, or race, shared by all of a steady race, so "
	"that it ranks as time does. Power read around a burst is not that of any kernel. --peers "
	"lays the header's times beside the fastest that a table of others' kernels has for the "
	"same batches: figures of other sessions, by the protocol that the table names.\n\n"
	"Example:\n  attune show --gpu h200 --model llama3.1-8b@1 --batch 32q1s16k\n"
	"  attune show --gpu h200 --model llama3.1-8b@1 --batch 2q2k_32q1s1k --why\n"
	"  attune show --gpu cpu --best\n  attune show --gpu h200 --peers\n"
	"  attune show --kernels\n"
	"  attune show --gpu h200 --ceilings",
	NULL,
	NULL,
	NULL
};

/* ---- which scenario ------------------------------------------------------------------------ */
static double log_ratio(double a, double b)
{
	return fabs(log((a + 1) / (b + 1)));
}

static double batch_distance(const struct attune_features *a, const struct attune_features *b)
{
	return log_ratio((double)a->num_seqs, (double)b->num_seqs) +
	       log_ratio((double)a->query_tokens, (double)b->query_tokens) +
	       log_ratio((double)a->kv_tokens, (double)b->kv_tokens) +
	       log_ratio((double)a->prefill_tokens, (double)b->prefill_tokens);
}

/* Models when this one is not there, else its three nearest batches. */
static void complain_nearest(const struct data *d, const struct show *o, const struct batch *b)
{
	enum { NEAREST = 3 };
	char text[600] = "";
	size_t n = 0;
	int known = 0;
	for (int s = 0; s < d->n; s++)
		known |= !strcmp(d->v[s].model, o->model);
	double last = -1;
	int last_scenario = -1;
	for (int k = 0; known && k < NEAREST && n < sizeof text; k++) {
		int best = -1;
		double least = INFINITY;
		for (int s = 0; s < d->n; s++) {
			struct part p;
			if (strcmp(d->v[s].model, o->model) ||
			    !part_make(&p, PHASE_ALL, &d->v[s].shape, &b->view, &d->run.device))
				continue;
			const double far = batch_distance(&p.f, &d->v[s].part[PHASE_ALL].f);
			if (far < least && (far > last || (far == last && s > last_scenario)))
				least = far, best = s;
		}
		if (best < 0)
			break;
		n += (size_t)snprintf(text + n, sizeof text - n, "%s%s (page %d)", k ? ", " : "",
				      d->v[best].batch_text, d->v[best].shape.page_size);
		last = least;
		last_scenario = best;
	}
	for (int s = 0; !known && s < d->n && n < sizeof text; s++)
		if (!s || strcmp(d->v[s].model, d->v[s - 1].model))
			n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", s ? ", " : "",
					      d->v[s].model);
	complain("no measurement of %s with batch %s on %s; %s: %s", o->model, o->batch, d->gpu,
		 known ? "nearest" : "models there are", text);
}

static int rank(const struct measured *m)
{
	return 2 * (m->shape.kv_layout == ATTUNE_KV_STRIDED) + (m->shape.page_size == 16);
}

/* Of several that differ in page size, dtype or layout: one of a strided cache, page size
 * 16, else the first; the others are named. */
static int find_scenario(const struct data *d, const struct show *o, int must)
{
	char error[200];
	struct batch *b = batch_parse(o->batch, error, sizeof error);
	int found = -1, others = 0;
	if (!b) {
		complain("--batch %s: %s", o->batch, error);
		return -2;
	}
	char *text = batch_format(&b->view);
	for (int s = 0; text && s < d->n; s++) {
		const struct measured *m = &d->v[s];
		char *its = batch_format(&m->batch->view);
		const int same = its && !strcmp(its, text) && !strcmp(m->model, o->model) &&
				 (!o->page_size || o->page_size == m->shape.page_size);
		free(its);
		others += same && found >= 0;
		if (same && (found < 0 || rank(m) > rank(&d->v[found])))
			found = s;
	}
	if (found < 0 && must)
		complain_nearest(d, o, b);
	else if (others)
		complain("shown: page size %d, %s, %s; %d more of this batch differ in that",
			 d->v[found].shape.page_size, dtype_name(d->v[found].shape.dtype),
			 d->v[found].layout, others);
	free(text);
	batch_free(b);
	return found;
}

/* ---- what is shown ------------------------------------------------------------------------- */
/* Of a batch, measured (s >= 0) or not. */
static int explain(const struct data *d, const struct forest *f, const struct show *o, int s)
{
	struct measured m;
	attune_shape shape;
	int done;
	if (s >= 0)
		return show_why(d, f, &d->v[s], s, o->format) ? EXIT_DONE : EXIT_CHECK;
	if (!shape_of_model(&shape, d, o->model, o->page_size) ||
	    !measured_make(&m, d, o->model, &shape, o->batch))
		return EXIT_USAGE;
	if (o->format == FORMAT_TABLE)
		printf("# never measured: times are estimates\n");
	done = show_why(d, f, &m, -1, o->format);
	measured_free(&m);
	return done ? EXIT_DONE : EXIT_CHECK;
}

/* People get the reasons, then the ranking; machines what they ask for. */
static int show_batch(const struct data *d, const struct show *o, const char *header)
{
	const int both = o->what == SHOW_SCENARIO && o->format == FORMAT_TABLE && !o->phase;
	const int s = find_scenario(d, o, o->what == SHOW_SCENARIO && !both);
	struct forest f;
	int code = EXIT_DONE;
	if (s == -2)
		return EXIT_USAGE;
	if (s < 0 && o->what == SHOW_SCENARIO && !both)
		return EXIT_CHECK;
	if (o->what == SHOW_WHY || both) {
		if (!forest_load(&f, header))
			return EXIT_USAGE;
		code = explain(d, &f, o, s);
		forest_free(&f);
	}
	if (!code && both && s >= 0)
		puts("");
	if (!code && o->what == SHOW_SCENARIO && s >= 0)
		code = show_ways(d, o, s) ? EXIT_DONE : EXIT_CHECK;
	return code;
}

static int show_list(const struct data *d, const struct show *o, const struct forest *f)
{
	static struct peers peers;
	if (o->what == SHOW_BEST)
		return show_best(d, f, o->model, o->format) ? EXIT_DONE : EXIT_CHECK;
	if (!peers_load(&peers, d->gpu, o->peers))
		return EXIT_USAGE;
	if (!peers.n) {
		complain("no times of others: scenarios/peers_%s.tsv is not there, or empty",
			 d->gpu);
		return EXIT_USAGE;
	}
	return show_peers(d, f, &peers, o->model, o->format) ? EXIT_DONE : EXIT_CHECK;
}

static int show_from(const struct data *d, const struct show *o, const char *header)
{
	struct forest f;
	int code;
	if (o->what != SHOW_BEST && o->what != SHOW_PEERS)
		return show_batch(d, o, header);
	if (!forest_load(&f, header))
		return EXIT_USAGE;
	code = show_list(d, o, &f);
	forest_free(&f);
	return code;
}

int cmd_show(int argc, char **argv)
{
	struct show o = { .phase = PHASE_ALL, .format = FORMAT_TABLE };
	char gpu[16], db[256], header[256];
	int code = EXIT_USAGE;
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&help, argc, argv, 0, NULL, &o);
	if (o.what == SHOW_KERNELS)
		return show_kernels(o.gpu, o.format) ? EXIT_DONE : EXIT_USAGE;
	if (!gpu_or_own(o.gpu, gpu))
		return EXIT_NO_DEVICE;
	default_paths(gpu, db, header);
	if (o.what == SHOW_CEILINGS)
		return show_ceilings(o.db ? o.db : db, gpu, o.format);
	struct data *d = data_load_all(o.db ? o.db : db, gpu);
	if (d)
		code = d->n ? show_from(d, &o, o.header ? o.header : header) : EXIT_CHECK;
	data_free(d);
	return code;
}
