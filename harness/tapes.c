/* tapes.c - what protocol a device is timed by, and a racer's calls on tapes of the
 * right length over rotating page sets. */
#include "tapes.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int protocol_for(struct protocol *p, const struct device_info *d, const char *preset)
{
	// clang-format off
	static const struct {
		const char *preset;
		enum backend backend;
		struct protocol p;
	} table[] = {
/*	  preset   backend        min max  interval sample  longest calls drop  seconds */
#define ROW(preset, backend, low, high, interval, sample, longest, calls, drop, s) \
	{ preset, backend, { NULL, low, high, interval, sample, longest, calls, drop, 0, s, 0 } },
	ROW("smoke", BACKEND_GPU,  3,  6,  0.03,    300,    20000,  8,    1.3,    3)
	ROW("quick", BACKEND_GPU,  6, 16,  0.01,    500,    20000,  8,    1.3,   10)
	ROW("full",  BACKEND_GPU,  8, 40,  0.005,   500,    20000,  8,    1.5,   30)
	ROW("smoke", BACKEND_CPU,  3,  6,  0.05,    500,     3000,  1,    1.3,    3)
	ROW("quick", BACKEND_CPU,  6, 20,  0.03,   1000,     3000,  1,    1.3,   10)
	ROW("full",  BACKEND_CPU,  8, 50,  0.02,   1000,     3000,  1,    1.5,   60)
#undef ROW
	};
	// clang-format on
	const size_t least = d->backend == BACKEND_GPU ? 400u << 20 : 64u << 20;
	for (size_t i = 0; i < COUNT(table); i++) {
		if (strcmp(table[i].preset, preset) || table[i].backend != d->backend)
			continue;
		*p = table[i].p;
		p->name = d->backend == BACKEND_GPU ? "graph-rotating" : "rounds-rotating";
		p->cold_bytes = 2 * d->l2_bytes > least ? 2 * d->l2_bytes : least;
		return 1;
	}
	return 0;
}

void protocol_steady(struct protocol *p)
{
	p->name =
	    strcmp(p->name, "graph-rotating") ? "rounds-rotating-steady" : "graph-rotating-steady";
	p->settle_s = 1;
}

void tapes_free(struct tapes *t, struct device *dev)
{
	for (int i = 0; i < t->n; i++)
		dev->ops->tape_free(dev, t->v[i]);
	free(t->v);
	*t = (struct tapes){ 0 };
}

static enum attune_status record(struct device *dev, const struct racer *racer, int sets, int first,
				 int calls, struct tape **tape)
{
	char text[200];
	enum attune_status status = dev->ops->tape_begin(dev);
	if (status)
		return status;
	for (int i = 0; i < calls && !status; i++)
		status = racer->call(racer->arg, (first + i) % sets);
	if (!status)
		return dev->ops->tape_end(dev, tape);
	/* what the failed call said is worth more than how the tape ended */
	snprintf(text, sizeof text, "%s", attune_last_error());
	if (!dev->ops->tape_end(dev, tape))
		dev->ops->tape_free(dev, *tape);
	return fail(status, "%s", text);
}

enum attune_status tapes_record(struct tapes *t, struct device *dev, const struct racer *racer,
				int sets, int calls)
{
	const int tapes = calls >= sets ? 1 : (sets + calls - 1) / calls;
	enum attune_status status = ATTUNE_OK;
	*t = (struct tapes){ .calls = calls, .v = calloc((size_t)tapes, sizeof *t->v) };
	if (!t->v)
		return fail(ATTUNE_NO_MEMORY, "no memory for %d tapes", tapes);
	for (int i = 0; i < tapes && !status; i++) {
		status = record(dev, racer, sets, i * calls % sets, calls, &t->v[i]);
		t->n += !status;
	}
	if (status)
		tapes_free(t, dev);
	return status;
}

int tapes_plan(const struct protocol *p, int sets, double us)
{
	double most = fmin(fmax(floor(p->longest_us / us), 1), 100000);
	double want = fmax(ceil(p->sample_us / us), fmax(p->min_calls, 1));
	want = ceil(want / sets) * sets;
	if (want > most)
		want = most > sets ? floor(most / sets) * sets : most;
	return (int)want;
}

struct tape *tapes_next(const struct tapes *t, int sets, int *next_set)
{
	int i = (*next_set + t->calls - 1) / t->calls % t->n;
	*next_set = (i + 1) * t->calls % sets;
	return t->v[i];
}
