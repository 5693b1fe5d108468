/* SPDX-License-Identifier: Apache-2.0 */
/* store_write.c - writes runs, scenarios, measurements, ceilings and resources, one transaction
 * each. */
#include "handle.h"
#include "store.h"
#include "harness/base/base.h"
#include "harness/base/text_rule.h"
#include "harness/measure/measure.h"
#include "harness/scenario/scenario.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

EMBED(store_resources_sql, "harness/store/resources.sql")

static double known(double x)
{
	return x == 0 ? NAN : x;
}

/* In texts of other programs, replaces what store_sound.c would refuse. */
static void mend_run(struct run_info *r)
{
	text_mend(TEXT_PRINTED, r->device.name);
	text_mend(TEXT_NAME, r->device.arch);
	text_mend(TEXT_PRINTED, r->device.driver);
	text_mend(TEXT_NAME, r->commit);
	text_mend(TEXT_PRINTED, r->toolkit);
	text_mend(TEXT_FREE, r->command);
}

long long store_begin_run(struct store *s, const struct run_info *given)
{
	struct run_info own = *given, *r = &own;
	const struct device_info *d = &r->device;
	unsigned long long random[2];
	char uid[33];
	mend_run(r);
	if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
		complain("%s: no random bytes for the run's name: %s", s->path, strerror(errno));
		return 0;
	}
	snprintf(uid, sizeof uid, "%016llx%016llx", random[0], random[1]);
	if (!store_begin(s))
		return 0;
	const int is_cpu = d->backend == BACKEND_CPU;
	const long long gib = is_cpu ? 0 : llround((double)d->memory_bytes / 0x1p30);
	const long long device = store_intern(
	    s, FIND_DEVICE, ADD_DEVICE, "sssilsiiil", d->gpu, d->name, d->arch, d->units, gib,
	    r->machine, d->lanes, d->smem_per_block, d->smem_per_unit, (long long)d->l2_bytes);
	long long run = -1;
	if (device > 0)
		run = store_number(s, ADD_RUN, "slssldddsssssssdd", uid, device,
				   *r->card ? r->card : NULL, d->driver, (long long)d->memory_bytes,
				   known(d->clock_mhz), known(d->memory_clock_mhz),
				   known(d->power_limit_w), r->built, r->compiled, r->commit,
				   *r->sources ? r->sources : "unknown", r->toolkit, r->protocol,
				   r->command, known(r->dram_gbps), known(r->fma_tflops));
	if (!store_end(s, run > 0))
		return 0;
	s->device = device;
	snprintf(s->gpu, sizeof s->gpu, "%s", d->gpu);
	snprintf(s->protocol, sizeof s->protocol, "%s", given->protocol);
	return run;
}

int store_set_commit(struct store *s, const char *built, const char *compiled, const char *commit)
{
	return store_begin(s) &&
	       store_end(s, store_number(s, SET_COMMIT, "ssss", built, compiled, commit,
					 *commit ? "committed" : "modified") == 0);
}

long long store_labelled_scenario(struct store *s, const struct scenario *sc)
{
	const long long id = store_scenario_id(s, sc, ADD_SCENARIO);
	if (id > 0 && store_number(s, LABEL_SCENARIO, "lssdd", id, sc->set, sc->split, sc->weight,
				   sc->steps) < 0)
		return -1;
	return id;
}

int store_scenario(struct store *s, const struct scenario *sc)
{
	return store_begin(s) && store_end(s, store_labelled_scenario(s, sc) > 0);
}

/* Packs samples for the database. Returns the number of bytes; -1: a sample is no valid time. */
static int pack_samples(unsigned char *out, const struct measurement *m)
{
	if (m->samples < 0 || m->samples > MAX_SAMPLES)
		return -1;
	for (int i = 0; i < m->samples; i++) {
		uint32_t bits;
		if (!(m->us[i] > 0 && m->us[i] < 1e12f))
			return -1;
		memcpy(&bits, &m->us[i], sizeof bits);
		for (int byte = 0; byte < 4; byte++)
			*out++ = (unsigned char)(bits >> (8 * byte));
	}
	return 4 * m->samples;
}

/* ---- a row ---------------------------------------------------------------------------- */
struct row {
	long long run, scenario, phase, stage, variant, build, race;
};

/* In the units of schema.sql. NaN stays NaN, which is stored as NULL. */
double store_nanoseconds(double us)
{
	return us < 1e-3 ? 1 : round(us * 1e3); /* a time is above 0 */
}

static double thousandths_below(const struct measurement *m)
{
	return fmin(999, round(1e3 * (1 - m->min_us / m->median_us)));
}

/* Only a race's reference has a ratio of 1. */
static double stored_ratio(double ratio)
{
	if (!(ratio > 0 && ratio < 1e12))
		return NAN;
	return ratio == 1  ? 1e4
	       : ratio > 1 ? fmax(1e4 + 1, round(1e4 * ratio))
			   : fmin(-1e4 - 1, -round(fmin(1e4 / ratio, 1e16)));
}

/* Of a clock in MHz, or of the power in mW. */
static double reading(double x)
{
	return known(round(x));
}

/* Finds the row's race, or inserts it with this row's readings. 0 + complain. */
static int find_race(struct store *s, struct row *r, const struct measurement *m)
{
	const double before = m ? reading(m->sm_mhz_before) : NAN;
	const double after = m ? reading(m->sm_mhz_after) : NAN;
	const double power = m ? reading(1e3 * m->power_w) : NAN;
	r->stage = store_stage_id(s->stage);
	if (!r->stage) {
		complain("%s: row refused: no stage is called '%s'", s->path, s->stage);
		return 0;
	}
	r->race = store_intern(s, FIND_RACE, ADD_RACE, "llllddd", r->scenario, r->phase, r->run,
			       r->stage, before, after, power);
	return r->race > 0;
}

static int has_time(const struct measurement *m)
{
	return m->outcome == OUTCOME_OK || m->outcome == OUTCOME_NOISY;
}

/* 0 + complain if a time is invalid. */
static int is_sound(struct store *s, const struct measurement *m)
{
	if (!has_time(m))
		return 1;
	const double times[] = { m->median_us, m->min_us };
	for (size_t i = 0; i < COUNT(times); i++)
		if (!(times[i] > 0 && times[i] < 1e12)) {
			complain("%s: row refused: %g us is no positive time", s->path, times[i]);
			return 0;
		}
	if (m->min_us > m->median_us || m->samples < 1) {
		complain("%s: row refused: a least time of %g us, a median of %g us, %d samples",
			 s->path, m->min_us, m->median_us, m->samples);
		return 0;
	}
	return 1;
}

static int add_times(struct store *s, const struct row *r, const struct measurement *m)
{
	const int timed = has_time(m);
	const long long ending =
	    store_intern(s, FIND_ENDING, ADD_ENDING, "ssi", outcome_name(m->outcome), m->stopped,
			 timed ? m->samples : 0);
	const long long ran =
	    ending > 0 ? store_intern(s, FIND_RAN, ADD_RAN, "ll", r->build, ending) : -1;
	return ran > 0 &&
	       store_number(s, ADD_MEASUREMENT, "llldddd", r->race, r->variant, ran,
			    timed ? store_nanoseconds(m->median_us) : NAN,
			    timed ? thousandths_below(m) : NAN, timed ? round(1e3 * m->ci_us) : NAN,
			    timed ? stored_ratio(m->ratio) : NAN) == 0;
}

/* Writes the parts of a row that have their own tables: reading, failure, samples. */
static int add_rest(struct store *s, const struct row *r, const struct measurement *m)
{
	unsigned char samples[4 * MAX_SAMPLES];
	const double before = reading(m->sm_mhz_before), after = reading(m->sm_mhz_after);
	const double power = reading(1e3 * m->power_w);
	const int bytes = has_time(m) ? pack_samples(samples, m) : 0;
	if (bytes < 0) {
		complain("%s: row refused: a sample that is not a positive time", s->path);
		return 0;
	}
	char detail[sizeof m->detail];
	snprintf(detail, sizeof detail, "%s", m->detail);
	text_mend(TEXT_FREE, detail); /* perhaps a compiler's message */
	if (*detail && store_number(s, ADD_FAILURE, "lls", r->race, r->variant, detail) < 0)
		return 0;
	if (bytes && m->calls > 0 &&
	    store_number(s, ADD_SAMPLE, "lliib", r->race, r->variant, m->calls, m->rejected,
			 (const char *)samples, bytes) < 0)
		return 0;
	const long long same = store_number(s, RACE_READING, "lddd", r->race, before, after, power);
	return same == 1 || (same == 0 && store_number(s, ADD_READING, "llddd", r->race, r->variant,
						       before, after, power) == 0);
}

static int add_row(struct store *s, struct row *r, const struct measurement *m)
{
	return is_sound(s, m) && find_race(s, r, m) &&
	       store_number(s, SUPERSEDE, "llllss", r->scenario, r->phase, r->variant, s->device,
			    s->protocol, s->stage) == 0 &&
	       add_times(s, r, m) && add_rest(s, r, m);
}

/* text: of a choice or a plan. */
static int store_any(struct store *s, long long run, const struct scenario *sc, const char *phase,
		     const char *text, enum backend backend, const char *flags, int registers,
		     int spill_bytes, const struct measurement *m)
{
	char sources[CODE_TEXT];
	struct row r = { .run = run, .phase = store_phase_id(phase) };
	store_code(sources, backend, text);
	if (!store_begin(s))
		return 0;
	long long code = 0;
	const int ok = (r.scenario = store_labelled_scenario(s, sc)) > 0 &&
		       (r.variant = store_variant_id(s, text, ADD_VARIANT)) > 0 &&
		       (code = store_intern(s, FIND_CODE, ADD_CODE, "s", sources)) > 0 &&
		       (r.build = store_intern(s, FIND_BUILD, ADD_BUILD, "lslii", run, flags, code,
					       registers, spill_bytes)) > 0 &&
		       add_row(s, &r, m);
	store_forget(s);
	return store_end(s, ok);
}

int store_measurement(struct store *s, long long run, const struct scenario *sc, enum phase phase,
		      const struct choice *c, const char *binary_flags, const struct measurement *m,
		      int registers, int spill_bytes)
{
	char text[MAX_PART_TEXT];
	choice_text(text, sizeof text, c);
	if (m->outcome == OUTCOME_NOISY && store_has(s, s->gpu, sc, phase, text))
		return 1;
	return store_any(s, run, sc, store_phase(phase), text, c->kernel->backend,
			 binary_flags ? binary_flags : "", registers, spill_bytes, m);
}

int store_plan_measurement(struct store *s, long long run, const struct scenario *sc,
			   const char *plan_text, const struct measurement *m)
{
	const long long backend = store_number(s, RUN_IS_CPU, "l", run);
	if (m->outcome == OUTCOME_NOISY && store_has_plan(s, s->gpu, sc, plan_text))
		return 1;
	return backend > 0 && store_any(s, run, sc, "plan", plan_text,
					backend == 2 ? BACKEND_CPU : BACKEND_GPU, "", -1, -1, m);
}

int store_control(struct store *s, long long run, const struct scenario *sc, const char *phase,
		  const char *text, double median_us, double ratio)
{
	struct row r = { .run = run, .phase = store_phase_id(phase) };
	if (!store_begin(s))
		return 0;
	const int ok = (r.scenario = store_labelled_scenario(s, sc)) > 0 &&
		       (r.variant = store_variant_id(s, text, ADD_VARIANT)) > 0 &&
		       find_race(s, &r, NULL) &&
		       store_number(s, ADD_CONTROL, "lldd", r.race, r.variant,
				    store_nanoseconds(median_us), round(1e6 * ratio)) == 0;
	return store_end(s, ok);
}

long long store_last_race(struct store *s, long long run)
{
	const long long id = store_number(s, LAST_RACE, "l", run);
	return id > 0 ? id : 0;
}

int store_disbelieve(struct store *s, long long run, long long after)
{
	if (!store_begin(s))
		return 0;
	const int ok = store_number(s, ADD_NOISY_ENDINGS, "") == 0 &&
		       store_number(s, ADD_NOISY_RANS, "ll", run, after) == 0 &&
		       store_number(s, DISBELIEVE, "ll", run, after) == 0 &&
		       store_number(s, SUPERSEDE_OLDER, "") == 0 &&
		       store_number(s, UNSUPERSEDE, "") == 0;
	store_forget(s);
	return store_end(s, ok);
}

void store_stage(struct store *s, const char *stage)
{
	s->stage = stage;
}

/* ---- ceilings: all of a run at once --------------------------------------------------- */
int store_ceilings(struct store *s, long long run, const struct ceiling *c, int n)
{
	int ok = store_begin(s);
	if (!ok)
		return 0;
	for (int i = 0; ok && i < n; i++)
		ok = store_number(s, ADD_CEILING, "lssds", run, c[i].name, c[i].detail, c[i].value,
				  c[i].unit) > 0;
	return store_end(s, ok);
}

/* ---- resources: the table is created with its first rows ------------------------------ */
static int add_resources(struct store *s, const struct device_info *d, const char *compiler,
			 const struct resources *r)
{
	const double *t = r->takes;
	char source[CODE_TEXT], why[sizeof r->why];
	snprintf(why, sizeof why, "%s", r->why);
	text_mend(TEXT_FREE, why);
	store_code(source, d->backend, r->kernel->name);
	return store_number(s, ADD_RESOURCES,
			    "ssssssss"
			    "dddddddddd",
			    d->gpu, d->arch, compiler, r->kernel->name, r->flags, source,
			    outcome_name(r->outcome), *why ? why : NULL, t[TAKES_REGISTERS],
			    t[TAKES_AGPRS], t[TAKES_SGPRS], t[TAKES_SPILLS], t[TAKES_SCRATCH],
			    t[TAKES_SMEM_STATIC], t[TAKES_SMEM_DYNAMIC], t[TAKES_THREADS],
			    t[TAKES_BLOCKS], t[TAKES_WAVES]) > 0;
}

int store_resources(struct store *s, const struct device_info *d, const char *compiler,
		    const struct resources *r, int n)
{
	if (!store_begin(s))
		return 0;
	int ok = store_execute(s, store_resources_sql) || store_explain(s);
	for (int i = 0; ok && i < n; i++)
		ok = add_resources(s, d, compiler, &r[i]);
	return store_end(s, ok);
}
