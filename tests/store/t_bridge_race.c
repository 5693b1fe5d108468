/* t_bridge_race.c - `attune bridge` by races: which choices are raced, what the races decide,
 * and how rows count by each kind of bridge. On the CPU. */
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/measure/measure.h"
#include "harness/store/store.h"
#include "bridge_rows.h"

/* The machine's own CPU is the only one that can be raced on. */
static void raced(void **state)
{
	(void)state;
	store_close(measured_with("renamed", "raced.sqlite", "cpu", cpu_arch));
	char *line = arguments("raced.sqlite", "--race --batches 3 --from renamed");
	assert_int_equal(bridge(line), 0);
	assert_string_equal(cell("how"), "race");
	assert_string_equal(cell("batches"), "3");
	assert_true(atof(cell("mean")) > 0.1 && atof(cell("mean")) < 10);
	assert_true(atof(cell("floor_mean")) > 0.1 && atof(cell("floor_mean")) < 10);
	assert_string_equal(cell("result"), "too few batches");
	assert_string_equal(ask("raced.sqlite", "SELECT count(*) FROM bridge"), "0;");
}

/* Stores that both sources were equally fast on a GPU. */
static void add_race(struct store *s, const char *old, const char *today, const char *gpu)
{
	const struct store_bridge b = { .kernel = "qblock",
					.old = old,
					.today = today,
					.arch = cpu_arch,
					.flags = "",
					.how = "race",
					.gpu = gpu,
					.toolkit = "cc",
					.commit = "abc",
					.mean = 1,
					.p95 = 0.001 };
	assert_true(store_add_bridge(s, &b));
}

/* Another GPU's race no longer counts when the rows' own device disagrees. */
static void slower(void **state)
{
	char old[33], today[33];
	const struct choice c = measured_choice();
	(void)state;
	struct store *s = measured_more("slow", "slow.sqlite", "cpu", cpu_arch, 9);
	identity_in("slow", old);
	assert_true(source_identity(c.kernel, today));
	add_race(s, old, today, "other");
	assert_string_equal(freshness(s, "cpu"), "333333333333");
	store_close(s);
	assert_int_equal(bridge(arguments("slow.sqlite", "--race --batches 12 --from slow")), 0);
	assert_string_equal(cell("result"), "differs");
	assert_string_equal(cell("batches"), "10"); /* enough to know */
	assert_true(atof(cell("mean")) < 0.99);
	assert_string_equal(ask("slow.sqlite", "SELECT count(*) FROM bridge"), "0;");
}

/* A later source is raced on the batches of rows that a stored bridge leads from. */
static void follows_bridges(void **state)
{
	char first[33], later[33];
	(void)state;
	struct store *s = measured_more("slow", "chain.sqlite", "cpu", cpu_arch, 9);
	identity_in("slow", first);
	identity_in("renamed", later);
	add_race(s, first, later, "cpu");
	store_close(s);
	assert_int_equal(bridge(arguments("chain.sqlite", "--race --batches 3 --from renamed")), 0);
	char *line = strstr(out, later);
	assert_non_null(line);
	*strchr(line, '\n') = '\0';
	assert_non_null(strstr(line, "\t3\t")); /* batches */
}

/* A wrong choice is not raced. */
static void wrong(void **state)
{
	(void)state;
	store_close(measured_with("wrong", "wrong.sqlite", "cpu", cpu_arch));
	assert_int_equal(bridge(arguments("wrong.sqlite", "--race --batches 3 --from wrong")), 0);
	assert_string_equal(cell("result"), "does not run");
	assert_non_null(strstr(err, "old: wrong"));
}

static void no_device(void **state)
{
	(void)state;
	store_close(measured_with("renamed", "device.sqlite", "mi300", "gfx942"));
	setenv("ATTUNE_HIP_LIBRARY", "/nonexistent/libamdhip64.so", 1);
	assert_int_equal(bridge(arguments("device.sqlite", "--race --from renamed")), 3);
	unsetenv("ATTUNE_HIP_LIBRARY");
	assert_ptr_equal(strchr(err, '\n'), err + strlen(err) - 1);
	assert_string_equal(out, "");
}

/* ---- what races say ------------------------------------------------------------------------------------- */

static void judged(void **state)
{
	(void)state;
	static const struct {
		int n, off; /* so many of the batches are off by `by` */
		double all, by, noise;
		const char *result;
		int accept;
	} rows[] = {
		{ 30, 0, 1.000, 0, 0.001, "bridged", 0 },
		{ 30, 0, 1.0049, 0, 0.001, "bridged", 0 },
		{ 30, 0, 0.9951, 0, 0.001, "bridged", 0 },
		{ 30, 0, 1.0051, 0, 0.001, "differs", 0 },
		{ 30, 0, 0.9949, 0, 0.001, "differs", 0 },
		/* one of 30 is beyond the 95th percentile */
		{ 30, 1, 1.000, 1.02, 0.001, "bridged", 0 },
		{ 30, 2, 1.000, 1.02, 0.001, "differs", 0 },
		{ 60, 3, 1.000, 0.98, 0.001, "bridged", 0 },
		{ 60, 4, 1.000, 0.98, 0.001, "differs", 0 },
		{ 29, 0, 1.000, 0, 0.001, "too few batches", 0 },
		{ 30, 0, 1.000, 0, 0.02, "too noisy here", 0 },
		{ 0, 0, 1.000, 0, 0, "too few batches", 0 },
		{ 30, 0, 1.000, 0, 0.001, "bridged", 1 }, /* --accept */
		{ 30, 0, 1.019, 0, 0.001, "accepted", 1 },
		{ 30, 4, 1.000, 1.10, 0.001, "accepted", 1 },
		{ 30, 0, 1.021, 0, 0.001, "differs", 1 },
		{ 30, 0, 0.979, 0, 0.001, "differs", 1 },
		{ 30, 0, 1.010, 0, 0.02, "too noisy here", 1 },
		{ 3, 0, 1.000, 0, 0.001, "too few batches", 1 },
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		double ratio[MOST_RACES], again[MOST_RACES];
		struct finding f = { 0 };
		for (int k = 0; k < rows[i].n; k++) {
			ratio[k] = k < rows[i].off ? rows[i].by : rows[i].all;
			again[k] = 1 + (k % 2 ? rows[i].noise : -rows[i].noise);
		}
		bridge_evaluate(&f, ratio, again, rows[i].n, rows[i].accept);
		if (strcmp(f.result, rows[i].result))
			fail_msg("row %zu: %s, not %s", i, f.result, rows[i].result);
	}
}

/* A row of table bridge, and the state of rows of head size 128, 128 and 64. */
static void counted(void **state)
{
	(void)state;
	static const struct {
		const char *how, *flags, *gpu, *arch, *fresh, *bridged;
	} rows[] = {
		{ "code", "", "", "scalar", "222", "code;" },
		{ "code", "64", "", "scalar", "002", "-;code;" },
		{ "code", "", "", "avx2", "000", "-;" },
		{ "race", "", "cpu", "scalar", "222", "race;" },
		{ "race", "", "other", "scalar", "333", "race on other;" },
		{ "race", "128", "other", "scalar", "330", "-;race on other;" },
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		char old[33], today[33], flags[MAX_FLAGS] = "";
		struct store *s = measured_with("renamed", "counted.sqlite", "cpu", "scalar");
		const struct choice c = measured_choice();
		struct scenario sc =
		    scenario_of("q40", atoi(rows[i].flags) ? atoi(rows[i].flags) : 64);
		if (*rows[i].flags)
			binary_flags(flags, sizeof flags, c.kernel, &c.config, &sc.shape);
		identity_in("renamed", old);
		assert_true(source_identity(c.kernel, today));
		const struct store_bridge_race race = { "m@1",         "q1", "qblock",
							PHASE_PREFILL, 12,   1.001 };
		const int is_race = !strcmp(rows[i].how, "race");
		const struct store_bridge b = { .kernel = "qblock",
						.old = old,
						.today = today,
						.arch = rows[i].arch,
						.flags = flags,
						.how = rows[i].how,
						.gpu = rows[i].gpu,
						.toolkit = "cc 12",
						.commit = "abc",
						.batches = is_race,
						.mean = is_race ? 1.001 : NAN,
						.p95 = is_race ? 0.001 : NAN,
						.race = is_race ? &race : NULL };
		assert_true(store_add_bridge(s, &b) &&
			    store_add_bridge(s, &b)); /* again: in its place */
		assert_string_equal(freshness(s, "cpu"), rows[i].fresh);
		store_close(s);
		assert_string_equal(
		    ask("counted.sqlite", "SELECT DISTINCT bridged FROM newest ORDER BY bridged"),
		    rows[i].bridged);
		assert_string_equal(ask("counted.sqlite", "SELECT count(*) FROM bridge"), "1;");
		assert_string_equal(ask("counted.sqlite", "SELECT count(*) FROM bridge_race"),
				    is_race ? "1;" : "0;");
		batch_free(sc.batch);
		free(sc.batch_text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(raced),           cmocka_unit_test(slower),
		cmocka_unit_test(follows_bridges), cmocka_unit_test(wrong),
		cmocka_unit_test(no_device),       cmocka_unit_test(judged),
		cmocka_unit_test(counted),
	};
	setenv("ATTUNE_THREADS", "1",
	       1); /* a pool's waiting threads would take CPU time from other tests */
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("bridge_race", tests, make_folder, remove_folder);
}
