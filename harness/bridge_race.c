/* bridge_race.c - bridges by races: the old source against today's, in the same rounds on cold
 * pages, on batches that span its use.
 *
 *   parent   for each source: compiles both, forks a racer, keeps what it says, judges
 *   racer    opens the device; for each batch: checks both against the reference, races them
 *
 * A source that takes the device down ends its own racer alone. Today's binary runs twice in each
 * race: what lies between its two times is the floor, below which no difference can be seen. */
#include "bridge.h"
#include "../kernels/run.h"
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { OLD, NEW, AGAIN, NUM_RACERS };
enum { CHECK_ROWS = 16, SILENCE_S = 90, EARLIEST_END = 10 /* batches */ };
static const double most_mean = 0.005, most_p95 = 0.01;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- code ------------------------------------------------------------------------------------ */

/* Numbers of the binaries that a racer is made of; -1: none. */
struct code_set {
	int main, helper[NUM_HELPERS];
};

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

/* ---- the racer --------------------------------------------------------------------------------- */

struct device_said {
	enum attune_status status;
	int is_emulated;
	char text[160], gpu[16], arch[16];
};

/* Of a batch. */
struct said {
	enum outcome outcome; /* the first that was not right */
	int who;              /* it was his */
	double us[NUM_RACERS], ratio[NUM_RACERS];
	char text[200];
};

struct track {
	struct device dev;
	struct pool *pool;
	void *workspace;
	size_t workspace_bytes;
	const struct binaries *binaries;
	const struct race_options *options;
	struct protocol protocol;
};

struct racing {
	struct track *stage;
	const struct pick *pick;
	const struct workload *work;
	struct loaded loaded;
	int set;
};

static enum attune_status launch_part(void *arg, int part, int steps, void *stream)
{
	struct racing *r = arg;
	(void)part;
	return choice_launch(&r->stage->dev, &r->pick->choice, &r->loaded, r->work, r->set,
			     r->pick->phase, r->stage->workspace, r->stage->workspace_bytes, steps,
			     stream);
}

static enum attune_status call(void *arg, int set)
{
	struct racing *r = arg;
	struct device *dev = &r->stage->dev;
	r->set = set;
	return run_parts(dev, ATTUNE_SERIAL, 1, launch_part, r, dev->ops->stream(dev));
}

static void unload(struct track *st, struct loaded *l)
{
	if (l->code)
		st->dev.ops->unload(&st->dev, l->code);
	for (enum helper h = 0; h < NUM_HELPERS; h++)
		if (l->helper[h])
			st->dev.ops->unload(&st->dev, l->helper[h]);
	*l = (struct loaded){ 0 };
}

static enum attune_status load_one(struct track *st, struct code **code, int binary)
{
	const struct built *b = binary < 0 ? NULL : &st->binaries->v[binary];
	if (!b)
		return ATTUNE_OK;
	if (b->status != BUILT)
		return fail(ATTUNE_INVALID, "%s %s: does not compile", b->kernel->name, b->flags);
	return st->dev.ops->load(&st->dev, code, &b->binary.blob);
}

static enum attune_status load(struct track *st, struct loaded *l, const struct code_set *set)
{
	enum attune_status status = load_one(st, &l->code, set->main);
	for (enum helper h = 0; h < NUM_HELPERS && !status; h++)
		status = load_one(st, &l->helper[h], set->helper[h]);
	return status;
}

static enum attune_status reserve(struct track *st, const struct pick *p)
{
	size_t bytes;
	enum attune_status status =
	    choice_workspace(&st->dev, &p->choice, &p->scenario, p->phase, &bytes);
	if (status || bytes <= st->workspace_bytes)
		return status;
	if (st->workspace)
		st->dev.ops->release(&st->dev, st->workspace);
	st->workspace = NULL;
	st->workspace_bytes = 0;
	status = st->dev.ops->alloc(&st->dev, &st->workspace, bytes);
	st->workspace_bytes = status ? 0 : bytes;
	return status;
}

static void cannot(struct said *s, int who, enum outcome outcome, const char *text)
{
	s->outcome = outcome;
	s->who = who;
	snprintf(s->text, sizeof s->text, "%.190s", text);
}

static void measure(struct track *st, struct racing *racing, struct workload *work,
		    struct said *out)
{
	struct racer racer[NUM_RACERS] = { { .call = NULL } };
	struct verdict v;
	for (int i = 0; i < 2; i++) {
		check_workload(&v, work, &racing[i].pick->choice, &racing[i].loaded,
			       racing[i].pick->phase, CHECK_ROWS);
		if (v.outcome != OUTCOME_OK) {
			cannot(out, i, v.outcome, v.text);
			return;
		}
	}
	for (int i = 0; i < NUM_RACERS; i++)
		racer[i] = (struct racer){ .call = call, .arg = &racing[i] };
	const struct race race = { .protocol = &st->protocol,
				   .v = racer,
				   .n = NUM_RACERS,
				   .sets = work->sets,
				   .seed = st->options->seed,
				   .fixed_rounds = st->options->rounds };
	if (measure_race(&st->dev, &race)) {
		cannot(out, OLD, OUTCOME_CRASH, attune_last_error());
		return;
	}
	for (int i = 0; i < NUM_RACERS; i++) {
		if (racer[i].m.outcome != OUTCOME_OK || !racer[i].m.samples) {
			cannot(out, i, racer[i].m.samples ? racer[i].m.outcome : OUTCOME_NOISY,
			       racer[i].m.detail);
			return;
		}
		out->us[i] = racer[i].m.median_us;
		out->ratio[i] = racer[i].m.ratio;
	}
}

static void race_batch(struct track *st, const struct pick *p, const struct code_set set[2],
		       struct said *out)
{
	struct racing racing[NUM_RACERS];
	struct workload work;
	enum attune_status status = ATTUNE_OK;
	*out = (struct said){ .outcome = OUTCOME_OK };
	for (int i = 0; i < NUM_RACERS; i++)
		racing[i] = (struct racing){ .stage = st, .pick = p, .work = &work };
	for (int i = 0; i < 2 && !status; i++) {
		status = load(st, &racing[i].loaded, &set[i]);
		out->who = i;
	}
	racing[AGAIN].loaded = racing[NEW].loaded;
	status = status ? status : reserve(st, p);
	if (!status)
		status = workload_make(&work, &st->dev, &st->pool, &p->scenario, WORKLOAD_TIMED,
				       st->protocol.cold_bytes);
	if (!status) {
		measure(st, racing, &work, out);
		workload_free(&work);
	} else {
		cannot(out, out->who, OUTCOME_RESOURCES, attune_last_error());
	}
	unload(st, &racing[OLD].loaded);
	unload(st, &racing[NEW].loaded);
}

static int say(int pipe_end, const void *bytes, size_t n)
{
	return write(pipe_end, bytes, n) == (ssize_t)n;
}

static void open_device(struct track *st, const char *gpu, struct device_said *said)
{
	*said = (struct device_said){ .status = device_open(&st->dev, device_for(gpu)) };
	if (said->status) {
		snprintf(said->text, sizeof said->text, "%.150s", attune_last_error());
		return;
	}
	said->is_emulated = device_is_emulated(&st->dev.info);
	snprintf(said->gpu, sizeof said->gpu, "%s", st->dev.info.gpu);
	snprintf(said->arch, sizeof said->arch, "%s", st->dev.info.arch);
	protocol_for(&st->protocol, &st->dev.info, "full");
}

/* picks NULL: says what the device is, and no more. */
static void be_racer(int pipe_end, const char *gpu, const struct race_options *o,
		     const struct binaries *binaries, const struct picks *picks,
		     const struct code_set (*set)[2])
{
	struct track st = { .binaries = binaries, .options = o };
	struct device_said device;
	struct said said;
	open_device(&st, gpu, &device);
	int ok = say(pipe_end, &device, sizeof device) && !device.status;
	for (int i = 0; picks && i < picks->n && ok; i++) {
		race_batch(&st, &picks->v[i], set[i], &said);
		ok = say(pipe_end, &said, sizeof said) && said.outcome != OUTCOME_CRASH;
	}
	_exit(0);
}

/* ---- the parent ----------------------------------------------------------------------------------- */

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
		complain("no pipe to a racer");
		return 0;
	}
	fflush(NULL);
	*c = (struct child){ .pid = fork(), .pipe_end = fd[0] };
	if (!c->pid) {
		close(fd[0]);
		be_racer(fd[1], gpu, o, binaries, picks, set);
	}
	close(fd[1]);
	if (c->pid > 0)
		return 1;
	close(fd[0]);
	complain("no process for a racer");
	return 0;
}

/* 0: it is gone, or silent for too long. */
static int hear(const struct child *c, void *bytes, size_t n)
{
	char *at = bytes;
	while (n) {
		struct pollfd p = { .fd = c->pipe_end, .events = POLLIN };
		if (poll(&p, 1, SILENCE_S * 1000) <= 0)
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

/* ---- judging ------------------------------------------------------------------------------------------ */

struct result {
	struct store_bridge_race race[MOST_RACES];
	double again[MOST_RACES]; /* ratio of today's source to itself */
	int n, failed, lost;      /* lost: too many are too far off, whatever else comes */
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

static void note(struct result *r, const struct pick *p, const struct said *said, char *text,
		 size_t size)
{
	if (said->outcome != OUTCOME_OK) {
		r->failed++;
		snprintf(r->why, sizeof r->why, "%s: %s: %.120s",
			 said->who == OLD ? "old" : "today's", outcome_name(said->outcome),
			 said->text);
		return;
	}
	choice_text(text, size, &p->choice);
	r->race[r->n] = (struct store_bridge_race){ .model = p->scenario.model,
						    .batch = p->scenario.batch_text,
						    .choice = text,
						    .phase = p->phase,
						    .old_us = said->us[OLD],
						    .ratio = said->ratio[NEW] };
	r->again[r->n++] = said->ratio[AGAIN] / said->ratio[NEW];
}

static int is_lost(const struct result *r, int planned)
{
	int off = 0;
	for (int i = 0; i < r->n; i++)
		off += fabs(r->race[i].ratio - 1) > most_p95;
	return r->n >= EARLIEST_END && off > planned - (95 * planned + 99) / 100;
}

void bridge_judge(struct finding *f, const double *ratio, const double *again, int n)
{
	f->batches = n;
	summarise(ratio, n, &f->mean, &f->p95);
	summarise(again, n, &f->floor_mean, &f->floor_p95);
	f->verdict = n < FEWEST_RACES                                       ? "too few batches"
		     : f->floor_p95 > most_p95                              ? "too noisy here"
		     : fabs(f->mean - 1) <= most_mean && f->p95 <= most_p95 ? "bridged"
									    : "differs";
}

static void judge_source(const struct result *r, struct finding *f, int all)
{
	double ratio[MOST_RACES];
	for (int i = 0; i < r->n; i++)
		ratio[i] = r->race[i].ratio;
	bridge_judge(f, ratio, r->again, r->n);
	if (r->n < FEWEST_RACES && r->failed)
		f->verdict = "does not run";
	else if (r->n < FEWEST_RACES && !all)
		f->verdict = r->lost ? "differs" : "out of time";
}

static int store(struct bridges *b, const struct old_source *s, const struct result *r,
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

/* ---- a source --------------------------------------------------------------------------------------- */

struct contest {
	struct bridges *bridges;
	const struct race_options *options;
	double until; /* of the clock */
	char gpu[16], arch[16];
};

static int listen(struct contest *c, struct child *child, const struct old_source *s,
		  const struct picks *picks, struct result *r, char text[MOST_RACES][MAX_PART_TEXT])
{
	struct device_said device;
	struct said said;
	char what[80];
	int i = 0, heard = hear(child, &device, sizeof device) && !device.status;
	snprintf(what, sizeof what, "racing %s %.8s", s->name, s->identity);
	while (heard && i < picks->n && !r->lost && now() < c->until && !interrupted) {
		heard = hear(child, &said, sizeof said);
		if (heard)
			note(r, &picks->v[i], &said, text[r->n], MAX_PART_TEXT);
		r->lost = is_lost(r, picks->n);
		progress(what, ++i, picks->n);
	}
	progress_end();
	if (!heard && !interrupted) {
		r->failed++;
		snprintf(r->why, sizeof r->why, "a racer died or fell silent at %.40s",
			 i ? picks->v[i - 1].scenario.batch_text : "its start");
	}
	return i == picks->n;
}

static int race_source(struct contest *c, struct old_source *s, const struct picks *picks,
		       struct finding *f)
{
	struct binaries binaries = { .arch = s->arch };
	struct code_set set[MOST_RACES][2];
	struct result *r = calloc(1, sizeof *r);
	char(*text)[MAX_PART_TEXT] = calloc(MOST_RACES, sizeof *text);
	struct child child;
	int ok = r && text;
	for (int i = 0; i < picks->n && ok; i++)
		ok = add_code(&binaries, s, &picks->v[i], set[i]);
	ok = ok && binaries_compile(&binaries) &&
	     start(&child, c->bridges->gpu, c->options, &binaries, picks,
		   (const struct code_set(*)[2])set);
	if (ok) {
		const int all = listen(c, &child, s, picks, r, text);
		stop(&child);
		judge_source(r, f, all);
		if (*r->why)
			fprintf(stderr, "%s %.8s: %d batches could not be raced; %s\n", s->name,
				s->identity, r->failed, r->why);
		if (!strcmp(f->verdict, "bridged"))
			ok = store(c->bridges, s, r, f, c->gpu);
	}
	binaries_free(&binaries);
	free(r);
	free(text);
	return ok && !interrupted;
}

/* An exit code. */
static int find_device(struct contest *c)
{
	struct device_said said = { .status = ATTUNE_DEVICE_ERROR };
	struct child child;
	if (!start(&child, c->bridges->gpu, c->options, NULL, NULL, NULL))
		return EXIT_CHECK;
	const int heard = hear(&child, &said, sizeof said);
	stop(&child);
	if (!heard || said.status) {
		complain("--race: %s", heard ? said.text : "the device could not be opened");
		return EXIT_NO_DEVICE;
	}
	const char *asked = getenv("ATTUNE_EMULATED");
	if (said.is_emulated && !(asked && !strcmp(asked, "1"))) {
		complain("--race: this GPU is emulated, and nothing that it takes is a time");
		return EXIT_USAGE;
	}
	memcpy(c->gpu, said.gpu, sizeof c->gpu);
	memcpy(c->arch, said.arch, sizeof c->arch);
	return EXIT_DONE;
}

static int race_all(struct contest *c, const struct picks *picks, struct finding *f)
{
	for (int i = 0; i < c->bridges->n; i++) {
		struct old_source *s = &c->bridges->v[i];
		if (!s->root)
			continue;
		f[i].how = "race";
		if (strcmp(s->arch, c->arch))
			f[i].verdict = "other architecture";
		else if (s->provisional == s->rows && strcmp(c->gpu, c->bridges->gpu))
			f[i].verdict = "bridged by such a race";
		else if (picks[i].known < c->options->batches && picks[i].known < FEWEST_RACES)
			f[i].verdict = "too few batches";
		else if (now() >= c->until)
			f[i].verdict = "out of time";
		else if (!race_source(c, s, &picks[i], &f[i]))
			return interrupted ? EXIT_INTERRUPTED : EXIT_CHECK;
	}
	return EXIT_DONE;
}

int bridge_by_race(struct bridges *b, const struct race_options *o, struct finding *f)
{
	struct contest c = { .bridges = b, .options = o, .until = now() + o->budget_s };
	int code = find_device(&c);
	struct picks *picks = code ? NULL : calloc((size_t)b->n + 1, sizeof *picks);
	if (!code)
		code = picks && bridge_pick(b, o->batches, picks) ? race_all(&c, picks, f)
								  : EXIT_CHECK;
	for (int i = 0; picks && i < b->n; i++)
		picks_free(&picks[i]);
	free(picks);
	return code;
}
