/* SPDX-License-Identifier: Apache-2.0 */
/* settled_next.c - attune scenarios --settled: writes the settled batches that are worth a sweep as a
 * scenario set.
 *
 * Worth it are batches whose winner is none of what the header runs, and those where what ran before lost
 * more than 5 %. Held-out scenarios must stay what nothing learns from, so nothing of theirs comes in: no
 * batch, no length of the held-out blocks, no shape. */
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "harness/settled/settled.h"
#include "harness/store/store.h"
#include "tuner/base/base.h"
#include "tuner/commands.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/policy/policy.h"
#include <argp.h>
#include <string.h>

#define LOSES 1.05

struct options {
	const char *gpu, *header, *db;
};

/* Why a settled batch is not in the set. */
enum why {
	WRITTEN,
	AGREES,
	OUTDATED,
	OTHER_CACHE,
	HELD_OUT,
	EXISTS,
	NO_MODEL,
	NO_MEMORY,
	NUM_WHYS
};
static const char *const why_words[NUM_WHYS] = {
	[AGREES] = "that the header runs as they were settled",
	[OUTDATED] = "of kernels that have changed",
	[OTHER_CACHE] = "that no rule of this header is for",
	[HELD_OUT] = "that are held out, or whose lengths or shape are",
	[EXISTS] = "that are scenarios already",
	[NO_MODEL] = "of a shape that models.json lacks",
};

struct search {
	struct data *d;
	struct forest f;
	struct models *models;
	struct taken taken;
	const char *gpu; /* of the rows */
	int e4m3;
	struct next_set set;
	int num[NUM_WHYS];
};

/* ---- one settled batch --------------------------------------------------------------------- */
static double loss_of(const struct store_settled *row)
{
	double least = row->v[0].us;
	for (int i = 1; i < row->n; i++)
		least = row->v[i].us < least ? row->v[i].us : least;
	return row->v[0].us / least;
}

static int is_today(const struct search *s, const struct store_settled *row)
{
	int today = 1;
	for (int i = 0; i < row->n; i++)
		today &= settled_is_today(s->gpu, row, i);
	return today;
}

static int same_family(const struct choice *a, const struct choice *b)
{
	const struct choice x = choice_family(a), y = choice_family(b);
	return choice_same(&x, &y);
}

/* Whether the header runs what won. Of a mixed batch, and where another number of segments won: whether
 * what ran before stayed. */
static int agrees(const struct search *s, const struct store_settled *row,
		  const attune_shape *shape, const attune_batch *batch)
{
	struct measured m;
	struct decided made;
	struct choice won;
	char error[200];
	if (!strcmp(row->kind, "mixed") || *row->v[row->winner].way ||
	    !measured_make_view(&m, s->d, shape, batch))
		return row->winner == 0;
	forest_make_serial(s->d, &s->f, &m, &made);
	const struct choice *runs = !strcmp(row->kind, "decode") ? &made.decode : &made.prefill;
	if (!choice_parse(&won, s->d->run.device.backend, row->v[row->winner].choice, error,
			  sizeof error))
		return row->winner == 0;
	return runs->kernel && same_family(runs, &won);
}

static enum why judge(struct search *s, const struct store_settled *row, const attune_batch *batch)
{
	attune_shape shape;
	char error[300];
	if (!settled_op(&shape, row) || shape.has_lse || shape.kv_layout != ATTUNE_KV_STRIDED ||
	    (shape.kv_dtype == ATTUNE_E4M3) != s->e4m3 ||
	    !scenario_batch_is_run(batch, error, sizeof error))
		return OTHER_CACHE;
	if (!is_today(s, row))
		return OUTDATED;
	if (loss_of(row) <= LOSES && agrees(s, row, &shape, batch))
		return AGREES;
	if (taken_is_held_out(&s->taken, row->batch) || lengths_are_held_out(batch) ||
	    taken_shape_is_held_out(&s->taken, &shape))
		return HELD_OUT;
	if (taken_has_scenario(&s->taken, &shape, row->batch))
		return EXISTS;
	const char *model = models_of_shape(s->models, &shape);
	if (!model)
		return NO_MODEL;
	return next_set_add(&s->set, model, &shape, row->batch, loss_of(row)) ? WRITTEN : NO_MEMORY;
}

static int look_at(void *arg, const struct store_settled *row)
{
	struct search *s = arg;
	char error[200];
	struct batch *b = batch_parse(row->batch, error, sizeof error);
	const enum why why = b ? judge(s, row, &b->view) : OTHER_CACHE;
	batch_free(b);
	s->num[why]++;
	return why != NO_MEMORY;
}

static void say_left_out(const struct search *s)
{
	for (int why = AGREES; why < NUM_WHYS; why++)
		if (s->num[why] && why_words[why])
			remark("left out: %d settled batches %s", s->num[why], why_words[why]);
}

/* ---- the command ---------------------------------------------------------------------------- */
static int load_taken(struct taken *t, struct store *store, const char *gpu, struct models *models)
{
	char dir[PATH_TEXT];
	struct scenario_list sets = { 0 };
	const int done = taken_of_store(t, store, gpu) &&
			 scenarios_load_all(&sets, data_path(dir, "scenarios"), models) &&
			 taken_of_sets(t, &sets);
	scenarios_free(&sets);
	return done;
}

static int search(struct search *s, const struct options *o, struct store *store)
{
	char header[PATH_TEXT];
	struct run_info run;
	rules_path(header, o->header, o->gpu);
	if (!store_device(store, s->gpu, &run) || !(s->d = data_new(o->gpu, &run)) ||
	    !forest_load(&s->f, header) || !load_taken(&s->taken, store, s->gpu, s->models) ||
	    !store_each_settled(store, s->gpu, look_at, s) || s->num[NO_MEMORY])
		return 0;
	say_left_out(s);
	if (!s->num[WRITTEN])
		complain("%s: no settled batch of %s is worth a sweep", o->db, o->gpu);
	return s->num[WRITTEN] && next_set_print(&s->set, o->gpu);
}

static void search_free(struct search *s)
{
	next_set_free(&s->set);
	taken_free(&s->taken);
	forest_free(&s->f);
	data_free(s->d);
}

// clang-format off
static const struct argp_option rows[] = {
	{ "gpu", 'g', "NAME", 0, "Device: h200, h200_e4m3, cpu, ... (this machine's)", 0 },
	{ "header", 'H', "FILE", 0, "Header with the rules (generated/attune_NAME.h)", 0 },
	{ 0 }
};
// clang-format on

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	switch (key) {
	case 'g': gpu_option(&o->gpu, arg, state); return 0;
	case 'H': o->header = arg; return 0;
	case ARGP_KEY_ARG:
		if (o->db)
			no_option(arg, state);
		o->db = arg;
		return 0;
	case ARGP_KEY_NO_ARGS: argp_error(state, "name the database of attune merge --settled");
	/* fall through */
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const char about[] =
    "Writes the settled batches of a database that are worth a sweep, as a scenario set on "
    "stdout."
    "\vThese are batches whose winner is none of what the header runs, and those where what "
    "ran "
    "before lost more than 5 %; what loses most comes first. A batch is never in it if a "
    "scenario of "
    "a split that nothing learns from (heldout..., gate, peers) has it, in the database or in "
    "scenarios/. Exit status 1: there is none.\n\n"
    "Example:\n"
    "  attune merge --settled node*.settled --into results/h200.sqlite\n"
    "  attune scenarios --settled results/h200.sqlite > fleet.json\n"
    "  attune sweep --scenarios fleet.json\n";
static const struct argp help = {
	.options = rows, .parser = parse_option, .args_doc = "DB", .doc = about
};

int cmd_settled_next(int argc, char **argv)
{
	struct options o = { .gpu = NULL };
	char gpu[GPU_NAME], rows_of[GPU_NAME], path[PATH_TEXT];
	options_parse(&help, argc, argv, &o);
	if (!gpu_or_own(o.gpu, gpu))
		return EXIT_NO_DEVICE;
	o.gpu = gpu;
	gpu_of_rows(rows_of, gpu);
	struct search s = { .gpu = rows_of, .e4m3 = gpu[gpu_length(gpu)] != '\0' };
	struct models *models = models_load(data_path(path, "scenarios/models.json"));
	struct store *store = models ? store_open(o.db, 1) : NULL;
	s.models = models;
	const int code = !store ? EXIT_USAGE : search(&s, &o, store) ? EXIT_DONE : EXIT_CHECK;
	store_close(store);
	search_free(&s);
	models_free(models);
	return code;
}
