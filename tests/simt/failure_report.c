/* SPDX-License-Identifier: Apache-2.0 */
/* failure_report.c - reports a launch that cannot go on: the thread, what it did, and where in
 * the sources, "at attend_body.inc:42 < qblock.cu:10", innermost first. */
#include "machine.h"
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static char death[1000];
static void *places[4];
static int num_places;

const char *const op_names[SIMT_NUM_OPS] = { "nothing",     "syncwarp",         "shuffle",
					     "vote",        "load of matrices", "matrix step",
					     "matrix step", "product" };

void note_place(void *pc)
{
	if (pc && num_places < (int)(sizeof places / sizeof *places))
		places[num_places++] = pc;
}

static void put_text(const char *format, va_list ap)
{
	int n = 0;
	if (simt_now && !num_places)
		note_place(me()->pc);
	if (simt_now)
		n = snprintf(death, sizeof death, "block (%u,%u,%u) thread %u: ", simt_now->block.x,
			     simt_now->block.y, simt_now->block.z, simt_now->thread.x);
	vsnprintf(death + n, sizeof death - (size_t)n, format, ap);
	machine.is_dead = 1;
}

void tell(const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	put_text(format, ap);
	va_end(ap);
}

void simt_die(const char *format, ...)
{
	va_list ap;
	void *left;
	va_start(ap, format);
	put_text(format, ap);
	va_end(ap);
	simt_now = NULL;
	switch_stack(&left, machine.main_sp);
	__builtin_unreachable();
}

const char *describe(const struct fiber *f, char *text, size_t size)
{
	const struct warp *w = &f->home->warp[f->view.warp];
	if (w->at_barrier >> f->view.lane & 1 && f->home->waits_at[f->view.thread.x] == AT_CLUSTER)
		snprintf(text, size, "the barrier of its cluster");
	else if (w->at_barrier >> f->view.lane & 1)
		snprintf(text, size, "barrier %d", f->home->waits_at[f->view.thread.x]);
	else
		snprintf(text, size, "%s of lanes %08llx", op_names[f->op],
			 (unsigned long long)f->mask);
	return text;
}

/* A deadlock: names the first of each kind of wait in each block. */
void tell_deadlock(void)
{
	char text[400] = "", one[80], last[80] = "";
	simt_now = NULL;
	for (int i = 0; i < machine.num_resident; i++) {
		const struct block *b = machine.resident[i];
		for (unsigned t = 0; b->live && t < b->threads && strlen(text) < 300; t++) {
			const struct fiber *f = &b->fiber[t];
			if (b->warp[f->view.warp].gone >> f->view.lane & 1)
				continue;
			describe(f, one, sizeof one);
			if (strcmp(one, last)) {
				note_place(f->pc);
				snprintf(text + strlen(text), sizeof text - strlen(text),
					 "%s block (%u,%u) thread %u in %s", *text ? ";" : "",
					 f->view.block.x, f->view.block.y, t, one);
			}
			snprintf(last, sizeof last, "%s", one);
		}
	}
	tell("nobody can go on:%s", text);
}

/* By addr2line, which has inlined calls too. `pc` is behind the instruction. */
static void add_place(char *text, size_t size, void *pc)
{
	Dl_info in;
	char command[1200], line[400];
	const char *between = " at ";
	if (!dladdr(pc, &in))
		return;
	snprintf(command, sizeof command,
		 "addr2line -s -i -e '%s' %#zx 2>/dev/null | grep -v -e cuda.h -e hip.h",
		 in.dli_fname, (size_t)((char *)pc - (char *)in.dli_fbase) - 1);
	FILE *pipe = popen(command, "r");
	while (pipe && fgets(line, sizeof line, pipe)) {
		const size_t used = strlen(text);
		line[strcspn(line, " \n")] = 0;
		snprintf(text + used, size - used, "%s%s", between, line);
		between = " < ";
	}
	if (pipe)
		pclose(pipe);
}

void death_certificate(char *text, size_t size)
{
	snprintf(text, size, "%s", death);
	for (int i = 0; i < num_places; i++)
		add_place(text, size, places[i]);
	num_places = 0;
}
