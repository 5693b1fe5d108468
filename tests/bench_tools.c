/* SPDX-License-Identifier: Apache-2.0 */
/* bench_tools.c - `make bench-tools`: CPU time and peak memory of the tools on the H200's
 * database, beside what they took when the table below was last written. Not part of
 * `make test`: it takes a minute or two, and times depend on the machine.
 *
 * CPU time counts as its ratio to a loop that does what the tools do most, sorting and looking
 * up. The loop runs before and after each tool, so that a machine that is slow, or busy with
 * something else, slows both.
 *
 *   bench_tools build/attune [RESULTS]     exit 1: a tool is slower or larger than its limit */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_ARGS = 16 };

/* Shares of the earlier time and size beyond which a tool fails. */
static const double time_margin = 1.3, size_margin = 1.15;

/* $RESULTS and $TMP are folders. ratio, mb: measured when this table was last written. */
// clang-format off
static const struct tool {
	const char *name, *args[MOST_ARGS];
	double ratio, mb;
} tools[] = {
	{ "show",    { "show", "--gpu", "h200", "--db", "$RESULTS/h200.sqlite", "--model", "llama3.1-8b@1", "--batch", "32q1s16k" }, 2.9, 56 },
	{ "eval",    { "eval", "--gpu", "h200", "--db", "$RESULTS/h200.sqlite", "--format", "json" }, 6.1, 66 },
	{ "diff",    { "show", "--diff", "--gpu", "h200", "$RESULTS/h200.sqlite", "$RESULTS/h200.sqlite", "--format", "tsv" }, 6.5, 95 },
	{ "plot",    { "plot", "--gpu", "h200", "--db", "$RESULTS/h200.sqlite", "--out", "$TMP" }, 13.3, 121 },
	{ "confirm", { "sweep", "--confirm", "--gpu", "h200", "--db", "$RESULTS/h200.sqlite", "--dry-run" }, 8.5, 82 },
	{ "induce",  { "induce", "--gpu", "h200", "--db", "$RESULTS/h200.sqlite", "--out", "$TMP/attune_h200.h" }, 180, 166 },
};
// clang-format on

struct used {
	double cpu_s, mb;
	int status;
};

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

static double cpu_seconds(const struct rusage *u)
{
	return seconds(u->ru_utime) + seconds(u->ru_stime);
}

/* ---- the loop ------------------------------------------------------------------------ */
static int by_number(const void *pa, const void *pb)
{
	const unsigned a = *(const unsigned *)pa, b = *(const unsigned *)pb;
	return (a > b) - (a < b);
}

/* Sorts a million numbers and looks a million up. */
static double loop_seconds(void)
{
	enum { N = 1 << 20 };
	static unsigned v[N], found;
	struct rusage before, after;
	unsigned long long state = 1;
	getrusage(RUSAGE_SELF, &before);
	for (int i = 0; i < N; i++) {
		state = state * 6364136223846793005ull + 1442695040888963407ull;
		v[i] = (unsigned)(state >> 33);
	}
	qsort(v, N, sizeof *v, by_number);
	for (int i = 0; i < N; i++) {
		state = state * 6364136223846793005ull + 1442695040888963407ull;
		const unsigned wanted = (unsigned)(state >> 33);
		found += bsearch(&wanted, v, N, sizeof *v, by_number) != NULL;
	}
	getrusage(RUSAGE_SELF, &after);
	return cpu_seconds(&after) - cpu_seconds(&before);
}

/* ---- a tool -------------------------------------------------------------------------- */
static char *expand(const char *arg, const char *results, const char *tmp)
{
	const char *rest, *folder = NULL;
	char *text;
	if (!strncmp(arg, "$RESULTS", 8))
		folder = results, rest = arg + 8;
	else if (!strncmp(arg, "$TMP", 4))
		folder = tmp, rest = arg + 4;
	else
		rest = arg;
	return asprintf(&text, "%s%s", folder ? folder : "", rest) < 0 ? NULL : text;
}

static void become(const char *program, const struct tool *t, const char *results, const char *tmp)
{
	char *argv[MOST_ARGS + 2] = { (char *)program };
	for (int i = 0; i < MOST_ARGS && t->args[i]; i++)
		if (!(argv[1 + i] = expand(t->args[i], results, tmp)))
			_exit(126);
	if (freopen("/dev/null", "w", stdout))
		execv(program, argv);
	_exit(126);
}

/* Of the tool and its child processes (gnuplot). */
static struct used run(const char *program, const struct tool *t, const char *results,
		       const char *tmp)
{
	struct used u = { .status = -1 };
	struct rusage usage;
	const pid_t pid = fork();
	if (!pid)
		become(program, t, results, tmp);
	if (pid > 0 && wait4(pid, &u.status, 0, &usage) == pid) {
		u.cpu_s = cpu_seconds(&usage);
		u.mb = (double)usage.ru_maxrss / 1024;
	}
	return u;
}

static int report(const struct tool *t, const struct used *u, double loop_s)
{
	const double ratio = u->cpu_s / loop_s;
	const char *said = "";
	if (u->status)
		said = "FAILED";
	else if (ratio > t->ratio * time_margin)
		said = u->mb > t->mb * size_margin ? "SLOW, LARGE" : "SLOW";
	else if (u->mb > t->mb * size_margin)
		said = "LARGE";
	printf("%-8s %7.2f %7.0f %8.2f %8.2f %8.0f  %s\n", t->name, u->cpu_s, u->mb, ratio,
	       t->ratio, t->mb, said);
	fflush(stdout);
	return !*said;
}

int main(int argc, char **argv)
{
	char tmp[] = "/tmp/attune-bench-XXXXXX";
	int good = 1;
	if (argc < 2 || argc > 3 || !mkdtemp(tmp)) {
		fprintf(stderr, "usage: bench_tools build/attune [RESULTS]\n");
		return 2;
	}
	printf("%-8s %7s %7s %8s %8s %8s\n", "tool", "cpu_s", "mb", "ratio", "was", "was_mb");
	fflush(stdout);
	double before = loop_seconds();
	for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
		const struct used u = run(argv[1], &tools[i], argc > 2 ? argv[2] : "results", tmp);
		const double after = loop_seconds();
		good &= report(&tools[i], &u, (before + after) / 2);
		before = after;
	}
	char *remove_tmp;
	if (asprintf(&remove_tmp, "rm -rf %s", tmp) > 0 && system(remove_tmp))
		fprintf(stderr, "bench_tools: %s: %s\n", tmp, strerror(errno));
	free(remove_tmp);
	return !good;
}
