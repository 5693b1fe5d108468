/* bridge_worker.c - the process that races an old source against today's: opens the device, and for
 * each batch checks both binaries against the reference and races them on cold pages. */
#include "bridge.h"
#include "bridge_worker.h"
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

struct bridge_state {
	struct device dev;
	struct pool *pool;
	void *workspace;
	size_t workspace_bytes;
	const struct binaries *binaries;
	const struct race_options *options;
	struct protocol protocol;
};

struct bridge_contender {
	struct bridge_state *state;
	const struct pick *pick;
	const struct workload *work;
	struct loaded loaded;
	int set;
};

static enum attune_status launch_part(void *arg, int part, int steps, void *stream)
{
	struct bridge_contender *r = arg;
	(void)part;
	return choice_launch(&r->state->dev, &r->pick->choice, &r->loaded, r->work, r->set,
			     r->pick->phase, r->state->workspace, r->state->workspace_bytes, steps,
			     stream);
}

static enum attune_status call(void *arg, int set)
{
	struct bridge_contender *r = arg;
	struct device *dev = &r->state->dev;
	r->set = set;
	return run_parts(dev, ATTUNE_SERIAL, 1, launch_part, r, dev->ops->stream(dev));
}

static void unload(struct bridge_state *st, struct loaded *l)
{
	if (l->code)
		st->dev.ops->unload(&st->dev, l->code);
	for (enum helper h = 0; h < NUM_HELPERS; h++)
		if (l->helper[h])
			st->dev.ops->unload(&st->dev, l->helper[h]);
	*l = (struct loaded){ 0 };
}

static enum attune_status load_one(struct bridge_state *st, struct code **code, int binary)
{
	const struct built *b = binary < 0 ? NULL : &st->binaries->v[binary];
	if (!b)
		return ATTUNE_OK;
	if (b->status != BUILT)
		return fail(ATTUNE_INVALID, "%s %s: does not compile", b->kernel->name, b->flags);
	const enum attune_status status = st->dev.ops->load(&st->dev, code, &b->binary.blob);
	return status ? jit_load(&st->dev, code, b->root, b->kernel, b->flags) : status;
}

static enum attune_status load(struct bridge_state *st, struct loaded *l,
			       const struct code_set *set)
{
	enum attune_status status = load_one(st, &l->code, set->main);
	for (enum helper h = 0; h < NUM_HELPERS && !status; h++)
		status = load_one(st, &l->helper[h], set->helper[h]);
	return status;
}

static enum attune_status reserve(struct bridge_state *st, const struct pick *p)
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

static void fail_result(struct bridge_result *s, int which, enum outcome outcome, const char *text)
{
	s->outcome = outcome;
	s->which = which;
	snprintf(s->text, sizeof s->text, "%.190s", text);
}

static void measure(struct bridge_state *st, struct bridge_contender *contender,
		    struct workload *work, struct bridge_result *out)
{
	struct timed_call timed_call[NUM_CONTENDERS] = { { .call = NULL } };
	struct verdict v;
	for (int i = 0; i < 2; i++) {
		check_workload(&v, work, &contender[i].pick->choice, &contender[i].loaded,
			       contender[i].pick->phase, CHECK_ROWS);
		if (v.outcome != OUTCOME_OK) {
			fail_result(out, i, v.outcome, v.text);
			return;
		}
	}
	for (int i = 0; i < NUM_CONTENDERS; i++)
		timed_call[i] = (struct timed_call){ .call = call, .arg = &contender[i] };
	const struct race race = { .protocol = &st->protocol,
				   .v = timed_call,
				   .n = NUM_CONTENDERS,
				   .sets = work->sets,
				   .seed = st->options->seed,
				   .fixed_rounds = st->options->rounds };
	if (measure_race(&st->dev, &race)) {
		fail_result(out, OLD, OUTCOME_CRASH, attune_last_error());
		return;
	}
	for (int i = 0; i < NUM_CONTENDERS; i++) {
		/* A noisy time counts: here today's binary against itself measures the noise. */
		const int is_right = timed_call[i].m.outcome == OUTCOME_OK ||
				     timed_call[i].m.outcome == OUTCOME_NOISY;
		if (!is_right || !timed_call[i].m.samples) {
			fail_result(out, i, is_right ? OUTCOME_NOISY : timed_call[i].m.outcome,
				    timed_call[i].m.detail);
			return;
		}
		out->us[i] = timed_call[i].m.median_us;
		out->ratio[i] = timed_call[i].m.ratio;
	}
}

static void race_batch(struct bridge_state *st, const struct pick *p, const struct code_set set[2],
		       struct bridge_result *out)
{
	struct bridge_contender contender[NUM_CONTENDERS];
	struct workload work;
	enum attune_status status = ATTUNE_OK;
	*out = (struct bridge_result){ .outcome = OUTCOME_OK };
	for (int i = 0; i < NUM_CONTENDERS; i++)
		contender[i] = (struct bridge_contender){ .state = st, .pick = p, .work = &work };
	for (int i = 0; i < 2 && !status; i++) {
		status = load(st, &contender[i].loaded, &set[i]);
		out->which = i;
	}
	contender[AGAIN].loaded = contender[NEW].loaded;
	status = status ? status : reserve(st, p);
	if (!status)
		status = workload_make(&work, &st->dev, &st->pool, &p->scenario, WORKLOAD_TIMED,
				       st->protocol.cold_bytes);
	if (!status) {
		measure(st, contender, &work, out);
		workload_free(&work);
	} else {
		fail_result(out, out->which, OUTCOME_RESOURCES, attune_last_error());
	}
	unload(st, &contender[OLD].loaded);
	unload(st, &contender[NEW].loaded);
}

static int send(int pipe_end, const void *bytes, size_t n)
{
	return write(pipe_end, bytes, n) == (ssize_t)n;
}

static void open_device(struct bridge_state *st, const char *gpu, struct bridge_device *out)
{
	*out = (struct bridge_device){ .status = device_open(&st->dev, device_for(gpu)) };
	if (out->status) {
		snprintf(out->text, sizeof out->text, "%.150s", attune_last_error());
		return;
	}
	out->is_emulated = device_is_emulated(&st->dev.info);
	snprintf(out->gpu, sizeof out->gpu, "%s", st->dev.info.gpu);
	snprintf(out->arch, sizeof out->arch, "%s", st->dev.info.arch);
	snprintf(out->name, sizeof out->name, "%s", st->dev.info.name);
	protocol_for(&st->protocol, &st->dev.info, "full");
	st->protocol.seconds = longest_race_s;
}

void bridge_worker(int pipe_end, const char *gpu, const struct race_options *o,
		   const struct binaries *binaries, const struct picks *picks,
		   const struct code_set (*set)[2])
{
	struct bridge_state st = { .binaries = binaries, .options = o };
	struct bridge_device device;
	struct bridge_result result;
	open_device(&st, gpu, &device);
	int ok = send(pipe_end, &device, sizeof device) && !device.status;
	for (int i = 0; picks && i < picks->n && ok; i++) {
		race_batch(&st, &picks->v[i], set[i], &result);
		ok = send(pipe_end, &result, sizeof result) && result.outcome != OUTCOME_CRASH;
	}
	_exit(0);
}
