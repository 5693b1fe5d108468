/* bridge_racer.c - a racer: opens the device; on each batch checks the old and today's binaries against
 * the reference, and races them in the same rounds on cold pages. */
#include "bridge.h"
#include "bridge_racer.h"
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/compile/compile.h"
#include "harness/measure/measure.h"
#include "kernels/launch/run.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHECK_ROWS = 16 };
static const double longest_race_s = 6;

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
	struct timed_call timed_call[NUM_RACERS] = { { .call = NULL } };
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
		timed_call[i] = (struct timed_call){ .call = call, .arg = &racing[i] };
	const struct race race = { .protocol = &st->protocol,
				   .v = timed_call,
				   .n = NUM_RACERS,
				   .sets = work->sets,
				   .seed = st->options->seed,
				   .fixed_rounds = st->options->rounds };
	if (measure_race(&st->dev, &race)) {
		cannot(out, OLD, OUTCOME_CRASH, attune_last_error());
		return;
	}
	for (int i = 0; i < NUM_RACERS; i++) {
		/* Of a bridge it is today's binary against itself that says what noise is. */
		const int is_right = timed_call[i].m.outcome == OUTCOME_OK ||
				     timed_call[i].m.outcome == OUTCOME_NOISY;
		if (!is_right || !timed_call[i].m.samples) {
			cannot(out, i, is_right ? OUTCOME_NOISY : timed_call[i].m.outcome,
			       timed_call[i].m.detail);
			return;
		}
		out->us[i] = timed_call[i].m.median_us;
		out->ratio[i] = timed_call[i].m.ratio;
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
	snprintf(said->name, sizeof said->name, "%s", st->dev.info.name);
	protocol_for(&st->protocol, &st->dev.info, "full");
	st->protocol.seconds = longest_race_s;
}

void bridge_racer(int pipe_end, const char *gpu, const struct race_options *o,
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
