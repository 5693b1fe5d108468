/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c - feeds the entries without libFuzzer: each seed, then a fixed number of mutants of the
 * seeds, the same in every run.
 *
 *   fuzz_replay              lists the entries
 *   fuzz_replay ENTRY FILE   one input
 *   fuzz_replay ENTRY FOLDER FAULT [MUTANTS]
 *                            seeds and mutants; writes an input that fails to the file FAULT
 */
#include "entries.h"
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_SEEDS = 200, MOST_BYTES = 1 << 16, MOST_EDITS = 4, PATIENCE_S = 600 };

struct input {
	size_t n;
	unsigned char v[MOST_BYTES];
};

/* The parent sees which input a child died of. */
static struct shared {
	struct input input;
	int seeds, mutants; /* taken so far */
} * now;

static struct input *seed[MOST_SEEDS];
static int num_seeds;

/* ---- seeds ------------------------------------------------------------------------------- */

static struct input *read_input(const char *path)
{
	struct input *in = malloc(sizeof *in);
	FILE *f = fopen(path, "rb");
	if (!in || !f) {
		perror(path);
		exit(2);
	}
	in->n = fread(in->v, 1, sizeof in->v, f);
	fclose(f);
	return in;
}

static int is_seed(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

static void read_seeds(const char *folder)
{
	struct dirent **name;
	const int n = scandir(folder, &name, is_seed, alphasort);
	for (int i = 0; i < n; i++) {
		char path[PATH_MAX];
		snprintf(path, sizeof path, "%s/%s", folder, name[i]->d_name);
		if (num_seeds < MOST_SEEDS)
			seed[num_seeds++] = read_input(path);
		free(name[i]);
	}
	if (n > 0)
		free(name);
	if (!num_seeds) {
		fprintf(stderr, "%s: has no seeds\n", folder);
		exit(2);
	}
}

/* ---- mutants ----------------------------------------------------------------------------- */

static unsigned long long dice = 0x9e3779b97f4a7c15;

static size_t below(size_t n)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return n ? (size_t)(dice >> 11) % n : 0;
}

/* Replaces `len` bytes at `at` by n others, if there is room. */
static void splice(struct input *in, size_t at, size_t len, const unsigned char *by, size_t n)
{
	if (in->n - len + n > MOST_BYTES)
		return;
	memmove(in->v + at + n, in->v + at + len, in->n - at - len);
	if (n)
		memcpy(in->v + at, by, n);
	in->n += n - len;
}

/* The number at or after `at` becomes one at a limit. */
static void edit_number(struct input *in, size_t at)
{
	static const char *const limits[] = {
		"0",     "-1",    "1",          "2147483647",
		"65537", "1e308", "4294967296", "9223372036854775807",
		"nan",   "0.5",   "-0",         "18446744073709551616"
	};
	const char *to = limits[below(sizeof limits / sizeof *limits)];
	size_t len = 0;
	while (at < in->n && (in->v[at] < '0' || in->v[at] > '9'))
		at++;
	while (at + len < in->n && in->v[at + len] >= '0' && in->v[at + len] <= '9')
		len++;
	if (len)
		splice(in, at, len, (const unsigned char *)to, strlen(to));
}

/* 1 to 8 bytes become one little-endian number of few or of all bits. */
static void edit_binary(struct input *in, size_t at)
{
	const size_t len = (size_t)1 << below(4);
	unsigned long long v = below(2) ? ~0ull : 1ull << below(8 * len);
	v -= below(3);
	for (size_t i = 0; i < len && at + i < in->n; i++, v >>= 8)
		in->v[at + i] = (unsigned char)v;
}

static void edit(struct input *in)
{
	static const unsigned char marks[] = "\n\t \"',;:={}[]()<>_-+.kqs0\0\xff\x80/*\\";
	static unsigned char copy[MOST_BYTES];
	const struct input *other = seed[below((size_t)num_seeds)];
	const size_t at = below(in->n), most = in->n - at < 64 ? in->n - at : 64;
	const size_t len = in->n ? 1 + below(most) : 0;
	const size_t from = below(other->n), rest = other->n - from;
	const size_t taken = below(rest < 200 ? rest : 200);
	switch (in->n ? below(9) : 8) {
	case 0: in->v[at] ^= (unsigned char)(1 << below(8)); break;
	case 1: in->v[at] = marks[below(sizeof marks - 1)]; break;
	case 2: splice(in, at, 0, &marks[below(sizeof marks - 1)], 1); break;
	case 3: splice(in, at, len, NULL, 0); break;
	case 4:
		memcpy(copy, in->v + at, len);
		splice(in, below(in->n), 0, copy, len);
		break;
	case 5: edit_number(in, at); break;
	case 6: edit_binary(in, at); break;
	case 7: in->n = below(4) ? in->n : at; break;
	default: splice(in, at, 0, other->v + from, taken);
	}
}

static void mutate(struct input *in)
{
	*in = *seed[below((size_t)num_seeds)];
	for (size_t edits = 1 + below(MOST_EDITS); edits > 0; edits--)
		edit(in);
}

/* ---- runs -------------------------------------------------------------------------------- */

/* From memory of just that size, so that a sanitizer sees what reads behind it. */
static void take(const struct entry *e, const struct input *in)
{
	unsigned char *bytes = malloc(in->n + !in->n);
	if (!bytes)
		exit(2);
	memcpy(bytes, in->v, in->n);
	alarm(PATIENCE_S); /* ends what hangs */
	e->take(bytes, in->n);
	free(bytes);
}

static void take_all(const struct entry *e, int mutants)
{
	for (; now->seeds < num_seeds; now->seeds++) {
		now->input = *seed[now->seeds];
		take(e, &now->input);
	}
	for (; now->mutants < mutants; now->mutants++) {
		mutate(&now->input);
		if (now->input.n > (size_t)e->longest)
			now->input.n = (size_t)e->longest;
		take(e, &now->input);
	}
	for (int i = 0; i < num_seeds; i++)
		free(seed[i]);
}

static int report(const struct entry *e, int status, int mutants, const char *fault)
{
	const int is_over = now->seeds == num_seeds && now->mutants == mutants;
	if (!status) {
		printf("# %s: %d seeds, %d mutants\n", e->name, num_seeds, mutants);
		return 0;
	}
	if (is_over) {
		fprintf(stderr, "%s: exit status %d at the end: leaks memory?\n", e->name, status);
		return 1;
	}
	FILE *f = fopen(fault, "wb");
	if (!f || fwrite(now->input.v, 1, now->input.n, f) != now->input.n || fclose(f))
		perror(fault);
	fprintf(stderr, "%s: %s %d ends with status %d; its bytes are in %s\n", e->name,
		now->seeds < num_seeds ? "seed" : "mutant",
		now->seeds < num_seeds ? now->seeds : now->mutants, status, fault);
	return 1;
}

int main(int argc, char **argv)
{
	struct stat what;
	if (argc < 3) {
		for (const struct entry *e = entries; e->name; e++)
			puts(e->name);
		return argc > 1 ? 2 : 0;
	}
	const struct entry *e = entry_find(argv[1]);
	if (!e || stat(argv[2], &what)) {
		fprintf(stderr, "%s: no such entry, or no file %s\n", argv[1], argv[2]);
		return 2;
	}
	if (!S_ISDIR(what.st_mode) || argc < 4) {
		struct input *in = read_input(argv[2]);
		take(e, in);
		free(in);
		return 0;
	}
	const int mutants = argc > 4 ? atoi(argv[4]) : e->mutants;
	read_seeds(argv[2]);
	now = mmap(NULL, sizeof *now, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (now == MAP_FAILED)
		return 2;
	const pid_t child = fork();
	int status = 1;
	if (!child) {
		take_all(e, mutants);
		exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return 2;
	return report(e, status, mutants, argv[3]);
}
