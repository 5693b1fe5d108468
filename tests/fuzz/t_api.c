/* SPDX-License-Identifier: Apache-2.0 */
/* t_api.c - random calls of the API (api.h): a fixed number of seeds in `make test`, more by `make
 * fuzz-api`. A child runs the cases, so that its parent can name the seed of one that crashes or hangs.
 *
 *   t_api                               the seeds of `make test`, as TAP
 *   t_api WHERE SECONDS [SEED]          seeds from SEED on (0: from the clock's), for so long
 *   t_api WHERE --seed SEED             one case, in this process
 *
 * WHERE: cpu, h200 or mi300x; the GPUs are emulated. */
#include "api.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_S = 1200, MOST_FAULTS = 10, CASES_OF_A_CHILD = 500 };

static const char *const names[NUM_WHERE] = { "cpu", "h200", "mi300x" };
/* Seeds of `make test`: on the emulated GPUs each may need kernels compiled. */
#ifdef LIBRARY_ALONE
enum { TESTED = ON_CPU + 1, CPU_SEEDS = 15 };
#else
enum { TESTED = NUM_WHERE, CPU_SEEDS = 40 };
#endif
static const int seeds_in_test[NUM_WHERE] = { CPU_SEEDS, 20, 6 };

/* What the parent sees of the case that its child runs. */
static struct shared {
	uint64_t seed;
	long long done;
	size_t used;
	char text[20000];
} * now;
static int is_alone; /* in one process */

/* ---- what is said ------------------------------------------------------------------------ */

static void say(const char *format, va_list ap)
{
	const size_t room = sizeof now->text - now->used;
	const int n = vsnprintf(now->text + now->used, room, format, ap);
	now->used += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
	if (now->used + 1 < sizeof now->text)
		now->text[now->used++] = '\n';
	now->text[now->used] = '\0';
}

void note(const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	say(format, ap);
	va_end(ap);
}

void fault(const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	say(format, ap);
	va_end(ap);
	if (is_alone)
		fputs(now->text, stdout);
	fflush(stdout);
	_exit(1);
}

static void show_fault(enum where where, int status)
{
	printf("# %s --seed %llu: ", names[where], (unsigned long long)now->seed);
	if (WIFSIGNALED(status))
		printf("%s\n", WTERMSIG(status) == SIGALRM ? "hangs" : strsignal(WTERMSIG(status)));
	else
		printf("exit status %d\n", WEXITSTATUS(status));
	for (const char *line = now->text; *line; line += strcspn(line, "\n") + 1)
		printf("#   %.*s\n", (int)strcspn(line, "\n"), line);
	fflush(stdout);
}

/* ---- cases ------------------------------------------------------------------------------- */

static void one_case(uint64_t seed, enum where where)
{
	now->seed = seed;
	now->used = 0;
	now->text[0] = '\0';
	alarm(PATIENCE_S); /* ends what hangs */
	run_case(seed, where);
	alarm(0);
	now->done++;
}

/* Cases from `seed` on in a child: n of them, or until the clock says `end`. Returns its status; *seed:
 * the case it died of, or the next one. */
static int run_child(uint64_t *seed, int n, time_t end, enum where where)
{
	int status = 0;
	now->seed = *seed;
	fflush(stdout);
	const pid_t child = fork();
	if (!child) {
		for (int i = 0; i < n && (!end || time(NULL) < end); i++)
			one_case(*seed + (uint64_t)i, where);
		now->seed++;
		close_emulated();
		exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child) {
		perror("t_api");
		exit(2);
	}
	*seed = now->seed;
	return status;
}

static int run_until(enum where where, int seconds, uint64_t seed)
{
	const time_t end = time(NULL) + seconds;
	int faults = 0;
	while (time(NULL) < end && faults < MOST_FAULTS) {
		const int status = run_child(&seed, CASES_OF_A_CHILD, end, where);
		if (!status)
			continue;
		show_fault(where, status);
		faults++;
		seed++;
	}
	printf("%s: %lld cases, %d faults\n", names[where], now->done, faults);
	return faults > 0;
}

static int test(enum where where)
{
	uint64_t seed = 1;
	const int n = seeds_in_test[where];
	const int status = run_child(&seed, n, 0, where);
	printf("%sok %d - %s: %d random cases\n", status ? "not " : "", (int)where + 1,
	       names[where], n);
	if (status)
		show_fault(where, status);
	return status != 0;
}

static enum where find_where(const char *name)
{
	for (int i = 0; i < NUM_WHERE; i++)
		if (!strcmp(name, names[i]))
			return (enum where)i;
	fprintf(stderr, "t_api: \"%s\" is no device: cpu, h200 or mi300x\n", name);
	exit(2);
}

int main(int argc, char **argv)
{
	now = mmap(NULL, sizeof *now, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (now == MAP_FAILED)
		return 2;
	if (argc == 4 && !strcmp(argv[2], "--seed")) {
		is_alone = 1;
		one_case(strtoull(argv[3], NULL, 0), find_where(argv[1]));
		close_emulated();
		printf("%sno fault\n", now->text);
		return 0;
	}
	if (argc > 2) {
		const uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : 0;
		return run_until(find_where(argv[1]), atoi(argv[2]),
				 seed ? seed : (uint64_t)time(NULL) << 20);
	}
	int failed = 0;
	for (int i = 0; i < TESTED; i++)
		failed += test((enum where)i);
	printf("1..%d\n", TESTED);
	return failed > 0;
}
