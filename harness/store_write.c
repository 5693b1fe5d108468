/* store_write.c - runs, scenarios and measurements, each one transaction; merging. */
#include "store.h"
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

EMBED(store_merge_sql, "harness/merge.sql")

static double known(double x)
{
	return x == 0 ? NAN : x;
}

long long store_begin_run(struct store *s, const struct run_info *r)
{
	const struct device_info *d = &r->device;
	unsigned long long random[2];
	char uid[33];
	if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
		complain("%s: no random bytes for the run's name: %s", s->path, strerror(errno));
		return 0;
	}
	snprintf(uid, sizeof uid, "%016llx%016llx", random[0], random[1]);
	if (!store_begin(s))
		return 0;
	const long long device =
	    store_intern(s, FIND_DEVICE, ADD_DEVICE, "sssiiiil", d->gpu, d->name, d->arch, d->units,
			 d->lanes, d->smem_per_block, d->smem_per_unit, (long long)d->l2_bytes);
	long long run = -1;
	if (device > 0)
		run = store_number(s, ADD_RUN, "slsldddssssdd", uid, device, d->driver,
				   (long long)d->memory_bytes, known(d->clock_mhz),
				   known(d->memory_clock_mhz), known(d->power_limit_w), r->commit,
				   r->toolkit, r->protocol, r->command, known(r->dram_gbps),
				   known(r->fma_tflops));
	if (!store_end(s, run > 0))
		return 0;
	s->device = device;
	snprintf(s->gpu, sizeof s->gpu, "%s", d->gpu);
	snprintf(s->protocol, sizeof s->protocol, "%s", r->protocol);
	return run;
}

static long long labelled_scenario(struct store *s, const struct scenario *sc)
{
	const long long id = store_scenario_id(s, sc, ADD_SCENARIO);
	if (id > 0 && store_number(s, LABEL_SCENARIO, "lssdd", id, sc->set, sc->split, sc->weight,
				   sc->steps) < 0)
		return -1;
	return id;
}

int store_scenario(struct store *s, const struct scenario *sc)
{
	return store_begin(s) && store_end(s, labelled_scenario(s, sc) > 0);
}

/* Samples as the database keeps them; their bytes, or -1 when one is no time. */
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

/* Whole numbers take two bytes, others eight; half a percent of a rate is nothing. */
static double brief(double x)
{
	return x >= 100 ? round(x) : x;
}

struct row {
	long long run, scenario, variant, build;
	const char *phase;
};

static int add_row(struct store *s, const struct row *r, const struct measurement *m)
{
	unsigned char samples[4 * MAX_SAMPLES];
	const int ok = m->outcome == OUTCOME_OK, quartiles = ok && m->samples > 2;
	const int bytes = ok ? pack_samples(samples, m) : 0;
	if (bytes < 0) {
		complain("%s: row refused: a sample that is not a positive time", s->path);
		return 0;
	}
#define TIME(x) (ok ? (x) : NAN)
	return store_number(s, ADD_MEASUREMENT,
			    "llsllssb"
			    "ddddddddd"
			    "ddd"
			    "iss",
			    r->run, r->scenario, r->phase, r->variant, r->build, s->stage,
			    outcome_name(m->outcome), samples, bytes, known(TIME((double)m->calls)),
			    TIME(m->median_us), TIME(m->min_us), quartiles ? m->q25_us : NAN,
			    quartiles ? m->q75_us : NAN, TIME(m->ci_us), known(TIME(m->ratio)),
			    TIME(brief(m->gbps)), TIME(brief(m->tflops)), known(m->sm_mhz_before),
			    known(m->sm_mhz_after), known(brief(m->power_w)), m->rejected,
			    *m->stopped ? m->stopped : NULL, *m->detail ? m->detail : NULL) > 0;
#undef TIME
}

int store_measurement(struct store *s, long long run, const struct scenario *sc, enum phase phase,
		      const struct choice *c, const char *binary_flags, const struct measurement *m,
		      int registers, int spill_bytes)
{
	char config[MAX_CHOICE_TEXT], whole[MAX_CHOICE_TEXT], source[33];
	struct row r = { .run = run, .phase = store_phase(phase) };
	config_text(config, sizeof config, &c->config, c->kernel->space);
	choice_text(whole, sizeof whole, c);
	store_source(source, c->kernel->backend, whole);
	if (!store_begin(s))
		return 0;
	const int ok = (r.scenario = labelled_scenario(s, sc)) > 0 &&
		       (r.variant = store_intern(s, FIND_VARIANT, ADD_VARIANT, "ss",
						 c->kernel->name, config)) > 0 &&
		       (r.build = store_intern(s, FIND_BUILD, ADD_BUILD, "lssii", run,
					       binary_flags ? binary_flags : "", source, registers,
					       spill_bytes)) > 0 &&
		       add_row(s, &r, m);
	return store_end(s, ok);
}

int store_plan_measurement(struct store *s, long long run, const struct scenario *sc,
			   const char *plan_text, const struct measurement *m)
{
	char source[33];
	struct row r = { .run = run, .phase = "plan" };
	const long long backend = store_number(s, RUN_IS_CPU, "l", run);
	store_source(source, backend == 2 ? BACKEND_CPU : BACKEND_GPU, plan_text);
	if (backend < 0 || !store_begin(s))
		return 0;
	const int ok =
	    (r.scenario = labelled_scenario(s, sc)) > 0 &&
	    (r.variant = store_intern(s, FIND_VARIANT, ADD_VARIANT, "ss", "plan", plan_text)) > 0 &&
	    (r.build = store_intern(s, FIND_BUILD, ADD_BUILD, "lssii", run, "", source, -1, -1)) >
		0 &&
	    add_row(s, &r, m);
	return store_end(s, ok);
}

/* "segmented" and "BLOCK_M=16 ..." of "segmented BLOCK_M=16 ..."; a plan is all choice. */
static const char *split_choice(const char *text, const char *phase, char kernel[64])
{
	const int is_plan = !strcmp(phase, "plan");
	const size_t n = is_plan ? 4 : strcspn(text, " ");
	snprintf(kernel, 64, "%.*s", (int)n, is_plan ? phase : text);
	return is_plan ? text : text + n + (text[n] == ' ');
}

int store_control(struct store *s, long long run, const struct scenario *sc, const char *phase,
		  const char *text, double median_us, double ratio)
{
	char kernel[64];
	const char *choice = split_choice(text, phase, kernel);
	long long scenario, variant;
	if (!store_begin(s))
		return 0;
	const int ok =
	    (scenario = labelled_scenario(s, sc)) > 0 &&
	    (variant = store_intern(s, FIND_VARIANT, ADD_VARIANT, "ss", kernel, choice)) > 0 &&
	    store_number(s, ADD_CONTROL, "llslsdd", run, scenario, phase, variant, s->stage,
			 median_us, ratio) > 0;
	return store_end(s, ok);
}

void store_stage(struct store *s, const char *stage)
{
	s->stage = stage;
}

static int same_file(const char *a, const char *b)
{
	struct stat x, y;
	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int store_merge(struct store *s, const char *path, long long *added)
{
	*added = 0;
	struct store *other = store_open(path, 1); /* is it one, and of this version? */
	if (!other)
		return 0;
	store_close(other);
	if (same_file(s->path, path)) {
		complain("%s: cannot be merged into itself", path);
		return 0;
	}
	char *attach = sqlite3_mprintf("ATTACH %Q AS src", path);
	if (!attach || !store_enter_wal(s) || !store_execute(s, attach)) {
		sqlite3_free(attach);
		return store_explain(s);
	}
	sqlite3_free(attach);
	int ok = store_begin(s);
	if (ok) {
		ok = store_execute(s, store_merge_sql) || store_explain(s);
		*added = ok ? sqlite3_changes(s->db) : 0;
		ok = ok && store_merge_ceilings(s);
		ok = store_end(s, ok);
	}
	return (store_execute(s, "DETACH src") || store_explain(s)) && ok;
}
