/* SPDX-License-Identifier: Apache-2.0 */
/* wave.c - runs a launch: a few blocks at a time, whose waves take turns. A turn ends at a
 * barrier, at the end of the program, after an atomic access to device memory, or after a number
 * of instructions. The seed sets the order of blocks and waves and the length of turns. */
#include "machine.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONG_TURN = 20000, SHORT_TURN = 300, HIDDEN = 256, RESIDENT = 4 };

struct launch cdna_now;

void die(const struct instruction *in, const char *format, ...)
{
	struct launch *n = &cdna_now;
	va_list ap;
	const int used = in ? snprintf(n->error, n->size, "0x%x: %.*s: ", in->at,
				       (int)strcspn(in->text, "/\n"), in->text)
			    : 0;
	va_start(ap, format);
	vsnprintf(n->error + used, n->size - (size_t)used, format, ap);
	va_end(ap);
	longjmp(n->dead, 1);
}

static unsigned random_number(void)
{
	cdna_now.random = cdna_now.random * 1664525u + 1013904223u;
	return cdna_now.random >> 8;
}

/* ---- instructions about a wave itself ------------------------------------------------- */

static int is_met(const struct wave *w, int condition)
{
	switch (condition) {
	case IF_SCC0: return !w->scc;
	case IF_SCC1: return w->scc;
	case IF_VCCZ: return !pair(w, VCC);
	case IF_VCCNZ: return pair(w, VCC) != 0;
	case IF_EXECZ: return !exec_of(w);
	case IF_EXECNZ: return exec_of(w) != 0;
	}
	return 1;
}

void run_branch(struct wave *w, const struct instruction *in)
{
	if (is_met(w, in->op->how))
		w->pc = in->target;
}

void run_end(struct wave *w, const struct instruction *in)
{
	(void)in;
	w->ended = 1;
}

void run_barrier(struct wave *w, const struct instruction *in)
{
	(void)in;
	w->at_barrier = 1;
}

void run_nothing(struct wave *w, const struct instruction *in)
{
	(void)w, (void)in;
}

void run_yield(struct wave *w, const struct instruction *in)
{
	(void)in;
	w->must_yield = 1;
}

void run_trap(struct wave *w, const struct instruction *in)
{
	(void)w;
	die(in, "the code itself gives up");
}

/* HW_ID (4) and XCC_ID (20): units go round the 8 dies. */
void run_getreg(struct wave *w, const struct instruction *in)
{
	enum { HW_ID = 4, XCC_ID = 20, DIES = 8 };
	const unsigned what = (unsigned)in->target;
	const unsigned at = what >> 6 & 31, bits = (what >> 11 & 31) + 1;
	uint32_t value = 0;
	switch (what & 63) {
	case HW_ID: value = w->unit / DIES << 8; break;
	case XCC_ID: value = w->unit % DIES; break;
	default: die(in, "a hardware register that nobody here knows");
	}
	w->s[in->o[0].reg] = value >> at & (uint32_t)((1ull << bits) - 1);
}

void run_time(struct wave *w, const struct instruction *in)
{
	set_pair(w, in->o[0].reg, cdna_now.steps);
}

void run_getpc(struct wave *w, const struct instruction *in)
{
	set_pair(w, in->o[0].reg, (uint64_t)(uintptr_t)cdna_now.code->memory + in->next);
}

/* ---- turns ---------------------------------------------------------------------------- */

static void take_turn(struct wave *w)
{
	const struct cdna_code *c = cdna_now.code;
	const uint64_t end =
	    cdna_now.steps + (cdna_now.random ? 1 + random_number() % SHORT_TURN : LONG_TURN);
	w->must_yield = 0;
	while (!w->ended && !w->at_barrier && !w->must_yield && cdna_now.steps < end) {
		if (w->pc >= c->n)
			die(NULL, "a wave runs beyond the code");
		const struct instruction *in = &c->v[w->pc++];
		in->op->run(w, in);
		cdna_now.steps++;
	}
	if (clock() - cdna_now.begun > (clock_t)cdna_now.machine->seconds * CLOCKS_PER_SEC)
		die(&c->v[w->pc - 1], "still running after %d s and %llu instructions",
		    cdna_now.machine->seconds, (unsigned long long)cdna_now.steps);
}

/* All waves left are at the barrier: opens it. 0: no wave is left. */
static int open_barrier(struct block *b)
{
	int left = 0;
	for (int i = 0; i < b->num_waves; i++) {
		left += !b->wave[i].ended;
		b->wave[i].at_barrier = 0;
	}
	return left;
}

/* Counts the waves that may go on. */
static int list_ready(struct block *b, struct wave **ready)
{
	int n = 0;
	for (int i = 0; i < b->num_waves; i++)
		if (!b->wave[i].ended && !b->wave[i].at_barrier)
			ready[n++] = &b->wave[i];
	return n;
}

/* A turn of one of its waves. 0: all have ended. */
static int go_on(struct block *b)
{
	struct wave *ready[MAX_WAVES];
	int n = list_ready(b, ready);
	if (!n && !open_barrier(b))
		return 0;
	n = n ? n : list_ready(b, ready);
	take_turn(ready[(cdna_now.random ? random_number() : b->turn++) % (unsigned)n]);
	return 1;
}

/* ---- the beginning -------------------------------------------------------------------- */

/* Scalar registers by the bits of the descriptor's properties, in this order. */
static void set_scalars(struct wave *w, const struct cdna_code *c, const unsigned block[3])
{
	static const int sizes[] = { 4, 2, 2, 2, 2, 2, 1 };
	enum { ARGUMENTS = 3 };
	int at = 0;
	for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++) {
		if (!(c->properties >> i & 1))
			continue;
		if (i == ARGUMENTS)
			set_pair(w, at, (uint64_t)(uintptr_t)cdna_now.kernarg);
		at += sizes[i];
	}
	for (int i = 0; i < 3; i++)
		if (c->rsrc2 >> (7 + i) & 1)
			w->s[at++] = block[i];
}

static void begin_wave(struct wave *w, struct block *b, const struct cdna_code *c, unsigned first,
		       unsigned threads, const unsigned block[3])
{
	const unsigned left = threads - first;
	memset(w->v, SIMT_POISON, sizeof w->v);
	memset(w->s, SIMT_POISON, sizeof w->s);
	w->block = b;
	w->scc = w->at_barrier = w->ended = 0;
	w->pc = c->first;
	for (unsigned l = 0; l < LANES; l++)
		w->v[0][l] = first + l;
	set_pair(w, EXEC, left < LANES ? (1ull << left) - 1 : ~0ull);
	set_scalars(w, c, block);
	memset(w->scratch, SIMT_POISON, (size_t)c->scratch * LANES);
}

static void begin_block(struct block *b, const struct cdna_code *c, unsigned index,
			const unsigned grid[3], unsigned threads)
{
	const unsigned block[3] = { index % grid[0], index / grid[0] % grid[1],
				    index / grid[0] / grid[1] };
	memset(b->lds, SIMT_POISON, sizeof b->lds);
	b->turn = 0;
	b->num_waves = (int)((threads + LANES - 1) / LANES);
	for (int i = 0; i < b->num_waves; i++) {
		begin_wave(&b->wave[i], b, c, (unsigned)i * LANES, threads, block);
		b->wave[i].unit = index % (cdna_now.machine->units ? cdna_now.machine->units : 1);
	}
}

/* The arguments that the runtime appends: block counts, block sizes. */
static char *make_kernarg(const struct cdna_code *c, const unsigned grid[3], unsigned threads,
			  const void *args, size_t args_bytes, size_t *bytes)
{
	const size_t hidden = (args_bytes + 7) / 8 * 8;
	const uint16_t sizes[3] = { (uint16_t)threads, 1, 1 };
	*bytes = hidden + HIDDEN > c->kernarg ? hidden + HIDDEN : c->kernarg;
	char *k = calloc(1, *bytes);
	if (!k)
		return NULL;
	memcpy(k, args, args_bytes);
	memcpy(k + hidden, grid, 3 * sizeof *grid);
	memcpy(k + hidden + 12, sizes, sizeof sizes);
	return k;
}

/* As many blocks at a time as there are; the next begins where one has ended. */
static void run_grid(struct block *const *resident, int num_resident, const unsigned grid[3],
		     unsigned threads)
{
	const unsigned n = grid[0] * grid[1] * grid[2];
	const unsigned from = cdna_now.random ? random_number() % n : 0;
	unsigned begun = 0, turn = 0;
	for (int live = num_resident; live; turn++) {
		struct block *b =
		    resident[(cdna_now.random ? random_number() : turn) % (unsigned)num_resident];
		if (b->is_out)
			continue;
		if (b->num_waves && go_on(b))
			continue;
		b->is_out = begun == n;
		live -= b->is_out;
		if (begun < n)
			begin_block(b, cdna_now.code, (begun++ + from) % n, grid, threads);
	}
}

static const char *why_impossible(const struct cdna_code *c, unsigned threads, size_t lds,
				  size_t most_lds)
{
	if (threads > MAX_WAVES * LANES)
		return "a block of more than 1024 threads";
	if (c->lds + lds > most_lds || most_lds > MAX_LDS)
		return "a block with more LDS than there is";
	return NULL;
}

/* One after the other, each with its lanes' scratch memory behind it. */
static struct block *make_block(const struct cdna_code *c, uint32_t lds)
{
	const size_t bytes = (size_t)c->scratch * LANES;
	struct block *b = calloc(1, sizeof *b + bytes * MAX_WAVES);
	for (int i = 0; b && i < MAX_WAVES; i++)
		b->wave[i].scratch = (char *)(b + 1) + (size_t)i * bytes;
	if (b)
		b->lds_bytes = lds;
	return b;
}

int cdna_launch(const struct cdna_code *c, const unsigned grid[3], unsigned threads, unsigned lds,
		const void *args, size_t args_bytes, const struct cdna_machine *machine,
		char *error, size_t size)
{
	struct launch *n = &cdna_now;
	struct block *resident[RESIDENT] = { NULL };
	const char *why = why_impossible(c, threads, lds, machine->lds);
	int done = 0;
	*n = (struct launch){ .code = c,
			      .machine = machine,
			      .random = machine->seed * 2654435761u,
			      .begun = clock(),
			      .error = error,
			      .size = size };
	n->kernarg = make_kernarg(c, grid, threads, args, args_bytes, &n->kernarg_bytes);
	for (int i = 0; i < RESIDENT; i++)
		resident[i] = make_block(c, c->lds + lds);
	if (!n->kernarg || !resident[RESIDENT - 1])
		why = "no memory for a launch";
	if (why) {
		snprintf(error, size, "%s", why);
	} else if (!setjmp(n->dead)) {
		run_grid(resident, RESIDENT, grid, threads);
		done = 1;
	}
	for (int i = 0; i < RESIDENT; i++)
		free(resident[i]);
	free(n->kernarg);
	return !done;
}
