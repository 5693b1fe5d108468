/* bridge_race.c - bridges by races: the old source against today's, in the same rounds on cold
 * pages, on batches that span its use.
 *
 *   parent   for each source: compiles both, forks a worker, keeps and evaluates its results
 *   worker   opens the device; for each batch: checks both against the reference, races them
 *
 * A source that takes the device down ends only its own worker. Today's binary runs twice in each
 * race: the difference of its two times is the noise floor, below which no difference counts. */
#include "bridge.h"
#include "bridge_worker.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/store/store.h"
#include "harness/sweep/sweep.h"
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_S = 90, EARLIEST_END = 10 /* batches */, MOST_PRINTED = 5 };
static const double most_mean = 0.005, most_p95 = 0.01, accepted_mean = 0.02;

/* ---- code ------------------------------------------------------------------------------------ */

static int add_code(struct binaries *b, const struct old_source *s, const struct pick *p,
		    struct code_set set[2])
{
	char flags[MAX_FLAGS];
	struct config config = p->choice.config;
	const attune_shape *shape = &p->scenario.shape;
	set[NEW].main = binaries_add(b, &p->choice, shape);
	if (set[NEW].main < 0 || !binaries_add_helpers(b, &p->choice, shape, set[NEW].helper))
		return 0;
	set[OLD] = set[NEW];
	if (p->choice.kernel != s->kernel)
		config_default(&config, s->kernel->space);
	binary_flags(flags, sizeof flags, s->kernel, &config, shape);
	const int old = binaries_add_source(b, s->kernel, s->root, flags);
	if (p->choice.kernel == s->kernel)
		set[OLD].main = old;
	for (enum helper h = 0; h < NUM_HELPERS; h++)
		if (kernel_helper(s->kernel->backend, h) == s->kernel)
			set[OLD].helper[h] = old;
	return old >= 0;
}

/* ---- the parent -------------------------------------------------------------------------- */

struct child {
	pid_t pid;
	int pipe_end;
};

/* 0 + complain. */
static int start(struct child *c, const char *gpu, const struct race_options *o,
		 const struct binaries *binaries, const struct picks *picks,
		 const struct code_set (*set)[2])
{
	int fd[2];
	if (pipe(fd)) {
		complain("no pipe to a worker");
		return 0;
	}
	fflush(NULL);
	*c = (struct child){ .pid = fork(), .pipe_end = fd[0] };
	if (!c->pid) {
		close(fd[0]);
		bridge_worker(fd[1], gpu, o, binaries, picks, set);
	}
	close(fd[1]);
	if (c->pid > 0)
		return 1;
	close(fd[0]);
	complain("no process for a worker");
	return 0;
}

/* 0: the worker is gone, or silent for PATIENCE_S. */
static int receive(const struct child *c, void *bytes, size_t n)
{
	char *at = bytes;
	while (n) {
		struct pollfd p = { .fd = c->pipe_end, .events = POLLIN };
		if (poll(&p, 1, PATIENCE_S * 1000) <= 0)
			return 0;
		const ssize_t got = read(c->pipe_end, at, n);
		if (got <= 0)
			return 0;
		at += got;
		n -= (size_t)got;
	}
	return 1;
}

static void stop(struct child *c)
{
	kill(c->pid, SIGKILL);
	while (waitpid(c->pid, NULL, 0) < 0 && !interrupted)
		;
	close(c->pipe_end);
}

/* ---- evaluating races -------------------------------------------------------------------- */

struct source_races {
	struct store_bridge_race race[MOST_RACES];
	double again[MOST_RACES]; /* ratio of today's binary to itself */
	int n, failed, lost;      /* lost: too many differ for any later result to help */
	char why[200];
};

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Geometric mean, and the 95th percentile of |ratio - 1| by nearest rank. */
static void summarise(const double *ratio, int n, double *mean, double *p95)
{
	double off[MOST_RACES], logs = 0;
	for (int i = 0; i < n; i++) {
		off[i] = fabs(ratio[i] - 1);
		logs += log(ratio[i]);
	}
	qsort(off, (size_t)n, sizeof *off, by_size);
	*mean = n ? exp(logs / n) : NAN;
	*p95 = n ? off[(95 * n + 99) / 100 - 1] : NAN;
}

static void note(struct source_races *r, const struct pick *p, const struct bridge_result *result,
		 char *text, size_t size)
{
	if (result->outcome != OUTCOME_OK) {
		r->failed++;
		snprintf(r->why, sizeof r->why, "%s: %s: %.120s",
			 result->which == OLD ? "old" : "today's", outcome_name(result->outcome),
			 result->text);
		return;
	}
	choice_text(text, size, &p->choice);
	r->race[r->n] = (struct store_bridge_race){ .model = p->scenario.model,
						    .batch = p->scenario.batch_text,
						    .choice = text,
						    .phase = p->phase,
						    .old_us = result->us[OLD],
						    .ratio = result->ratio[NEW] };
	r->again[r->n++] = result->ratio[AGAIN] / result->ratio[NEW];
}

static int is_lost(const struct source_races *r, int planned)
{
	int off = 0;
	for (int i = 0; i < r->n; i++)
		off += fabs(r->race[i].ratio - 1) > most_p95;
	return r->n >= EARLIEST_END && off > planned - (95 * planned + 99) / 100;
}

void bridge_evaluate(struct finding *f, const double *ratio, const double *again, int n, int accept)
{
	f->batches = n;
	summarise(ratio, n, &f->mean, &f->p95);
	summarise(again, n, &f->floor_mean, &f->floor_p95);
	f->result = n < FEWEST_RACES                                       ? "too few batches"
		    : f->floor_p95 > most_p95                              ? "too noisy here"
		    : fabs(f->mean - 1) <= most_mean && f->p95 <= most_p95 ? "bridged"
									   : "differs";
	if (accept && strcmp(f->result, "bridged") && n >= FEWEST_ACCEPTED &&
	    f->floor_p95 <= most_p95 && fabs(f->mean - 1) <= accepted_mean)
		f->result = "accepted";
}

static void evaluate_source(const struct source_races *r, struct finding *f, int all, int accept)
{
	double ratio[MOST_RACES];
	for (int i = 0; i < r->n; i++)
		ratio[i] = r->race[i].ratio;
	bridge_evaluate(f, ratio, r->again, r->n, accept);
	if (!strcmp(f->result, "accepted"))
		return;
	if (r->n < FEWEST_RACES && r->failed)
		f->result = "does not run";
	else if (r->n < FEWEST_RACES && !all)
		f->result = r->lost ? "differs" : "out of time";
}

static int store(struct bridges *b, const struct old_source *s, const struct source_races *r,
		 struct finding *f, const char *gpu)
{
	const struct store_bridge row = { .kernel = s->name,
					  .old = s->identity,
					  .today = s->today,
					  .arch = s->arch,
					  .flags = "",
					  .how = "race",
					  .gpu = gpu,
					  .toolkit = jit_version(b->backend, s->arch),
					  .commit = b->commit,
					  .batches = r->n,
					  .mean = f->mean,
					  .p95 = f->p95,
					  .race = r->race };
	f->bridged = s->rows;
	return store_add_bridge(b->into, &row);
}

/* ---- a source ---------------------------------------------------------------------------- */

struct bridging {
	struct bridges *bridges;
	const struct race_options *options;
	double until; /* by seconds_now */
	char gpu[GPU_NAME], arch[16];
};

static int receive_results(struct bridging *c, struct child *child, const struct old_source *s,
			   const struct picks *picks, struct source_races *r,
			   char text[MOST_RACES][MAX_PART_TEXT])
{
	struct bridge_device device;
	struct bridge_result result;
	char what[80];
	int i = 0, received = receive(child, &device, sizeof device) && !device.status;
	snprintf(what, sizeof what, "racing %s %.8s", s->name, s->identity);
	while (received && i < picks->n && !r->lost && seconds_now() < c->until && !interrupted) {
		received = receive(child, &result, sizeof result);
		if (received)
			note(r, &picks->v[i], &result, text[r->n], MAX_PART_TEXT);
		r->lost = !c->options->accept && is_lost(r, picks->n);
		progress(what, ++i, picks->n);
	}
	progress_end();
	if (!received && !interrupted) {
		r->failed++;
		snprintf(r->why, sizeof r->why, "a worker died or fell silent at %.40s",
			 i ? picks->v[i - 1].scenario.batch_text : "its start");
	}
	return i == picks->n;
}

static int by_offset(const void *a, const void *b)
{
	const double x = fabs(((const struct store_bridge_race *)a)->ratio - 1);
	const double y = fabs(((const struct store_bridge_race *)b)->ratio - 1);
	return (x < y) - (x > y);
}

/* Prints the batches where the sources differ most, for the author of the new one. */
static void print_furthest(const struct old_source *s, struct source_races *r)
{
	qsort(r->race, (size_t)r->n, sizeof *r->race, by_offset);
	for (int i = 0; i < r->n && i < MOST_PRINTED && fabs(r->race[i].ratio - 1) > most_p95; i++)
		fprintf(stderr, "%s %.8s: %+.1f %% of %.1f us at %s, %s: %s\n", s->name,
			s->identity, 100 * (r->race[i].ratio - 1), r->race[i].old_us,
			r->race[i].model, r->race[i].batch, r->race[i].choice);
}

static int race_source(struct bridging *c, struct old_source *s, const struct picks *picks,
		       struct finding *f)
{
	struct binaries binaries = { .arch = s->arch };
	struct code_set set[MOST_RACES][2];
	struct source_races *r = calloc(1, sizeof *r);
	char(*text)[MAX_PART_TEXT] = calloc(MOST_RACES, sizeof *text);
	struct child child;
	int ok = r && text;
	for (int i = 0; i < picks->n && ok; i++)
		ok = add_code(&binaries, s, &picks->v[i], set[i]);
	ok = ok && binaries_compile(&binaries) &&
	     start(&child, c->bridges->gpu, c->options, &binaries, picks,
		   (const struct code_set(*)[2])set);
	if (ok) {
		const int all = receive_results(c, &child, s, picks, r, text);
		stop(&child);
		evaluate_source(r, f, all, c->options->accept);
		if (*r->why)
			fprintf(stderr, "%s %.8s: %d batches could not be raced; %s\n", s->name,
				s->identity, r->failed, r->why);
		if (!strcmp(f->result, "bridged") || !strcmp(f->result, "accepted"))
			ok = store(c->bridges, s, r, f, c->gpu);
		print_furthest(s, r);
		/* The race on the rows' own GPU overrules that on another one. */
		if (!strcmp(f->result, "differs") && s->provisional &&
		    !strcmp(c->gpu, c->bridges->gpu))
			ok = store_drop_races(c->bridges->into, s->name, s->identity, s->arch);
	}
	binaries_free(&binaries);
	free(r);
	free(text);
	return ok && !interrupted;
}

/* An exit code. */
static int find_device(struct bridging *c)
{
	struct bridge_device device = { .status = ATTUNE_DEVICE_ERROR };
	struct run_info rows_of;
	struct child child;
	if (!store_device(c->bridges->store, c->bridges->gpu, &rows_of) ||
	    !start(&child, c->bridges->gpu, c->options, NULL, NULL, NULL))
		return EXIT_CHECK;
	const int received = receive(&child, &device, sizeof device);
	stop(&child);
	if (!received || device.status) {
		complain("--race: %s", received ? device.text : "the device could not be opened");
		return EXIT_NO_DEVICE;
	}
	const char *asked = getenv("ATTUNE_EMULATED");
	if (device.is_emulated && !(asked && !strcmp(asked, "1"))) {
		complain("--race: this GPU is emulated, and its times mean nothing");
		return EXIT_USAGE;
	}
	/* All CPUs have one short name. */
	const int is_other =
	    c->bridges->backend == BACKEND_CPU && strcmp(device.name, rows_of.device.name);
	snprintf(c->gpu, sizeof c->gpu, "%s", is_other ? "other_cpu" : device.gpu);
	memcpy(c->arch, device.arch, sizeof c->arch);
	return device_ready_named(device_for(c->bridges->gpu), "bridge", c->options->anyway);
}

static int race_all(struct bridging *c, const struct picks *picks, struct finding *f)
{
	const int fewest = c->options->accept ? FEWEST_ACCEPTED : FEWEST_RACES;
	for (int i = 0; i < c->bridges->n; i++) {
		struct old_source *s = &c->bridges->v[i];
		if (!s->root)
			continue;
		f[i].how = "race";
		if (strcmp(s->arch, c->arch))
			f[i].result = "other architecture";
		else if (s->provisional == s->rows && strcmp(c->gpu, c->bridges->gpu))
			f[i].result = "bridged by such a race";
		else if (picks[i].known < c->options->batches && picks[i].known < fewest)
			f[i].result = "too few batches";
		else if (seconds_now() >= c->until)
			f[i].result = "out of time";
		else if (!race_source(c, s, &picks[i], &f[i]))
			return interrupted ? EXIT_INTERRUPTED : EXIT_CHECK;
	}
	return EXIT_DONE;
}

int bridge_by_race(struct bridges *b, const struct race_options *o, struct finding *f)
{
	struct bridging c = { .bridges = b, .options = o };
	int code = find_device(&c);
	c.until = seconds_now() + o->budget_s;
	struct picks *picks = code ? NULL : calloc((size_t)b->n + 1, sizeof *picks);
	if (!code)
		code = picks && bridge_pick(b, o->batches, picks) ? race_all(&c, picks, f)
								  : EXIT_CHECK;
	for (int i = 0; picks && i < b->n; i++)
		picks_free(&picks[i]);
	free(picks);
	return code;
}
