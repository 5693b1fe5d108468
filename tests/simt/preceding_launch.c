/* SPDX-License-Identifier: Apache-2.0 */
/* preceding_launch.c - the launch in front of one that begins early. It ends when all threads
 * that can go on wait for it. Until then its outputs are NaN and must not be copied from, and
 * the memory that the later launch is to write must stay as it is. */
#include "machine.h"
#include <stdlib.h>
#include <string.h>

/* Turns that are given away in vain before the launch in front ends: all others have had some. */
enum { PATIENCE = 4 * MAX_RESIDENT * MAX_WARPS };

static const struct simt_pending *pending; /* NULL: nothing in front, or it is over */
static int num_pending, turns;
static char *kept; /* all of it as it was, one piece behind the other */

void front_begin(const struct simt_options *o)
{
	size_t bytes = 0;
	for (int i = 0; i < o->num_pending; i++)
		bytes += o->pending[i].bytes;
	pending = NULL;
	kept = malloc(bytes + 1);
	if (!o->num_pending || !kept)
		return;
	pending = o->pending;
	num_pending = o->num_pending;
	bytes = 0;
	for (int i = 0; i < num_pending; i++) {
		memcpy(kept + bytes, pending[i].at, pending[i].bytes);
		if (pending[i].is_new)
			memset(pending[i].at, SIMT_POISON, pending[i].bytes);
		bytes += pending[i].bytes;
	}
}

/* Whether something was written too soon. */
static int finish(void)
{
	const struct simt_pending *p = pending;
	const char *was = kept;
	int touched = 0;
	for (int i = 0; p && i < num_pending; was += p[i++].bytes)
		if (p[i].is_new)
			memcpy(p[i].at, was, p[i].bytes);
		else
			touched |= memcmp(p[i].at, was, p[i].bytes) != 0;
	pending = NULL;
	return touched;
}

static const char too_soon[] = "written before the launch in front was waited for";

void front_end(void)
{
	if (finish() && !machine.is_dead)
		tell(too_soon);
	free(kept);
	kept = NULL;
}

int front_writes(const void *from, size_t bytes)
{
	const char *begin = from, *end = begin + bytes;
	for (int i = 0; pending && i < num_pending; i++)
		if (pending[i].is_new && begin < (char *)pending[i].at + pending[i].bytes &&
		    end > (char *)pending[i].at)
			return 1;
	return 0;
}

void simt_front_wait(void)
{
	turns = 0;
	while (pending)
		if (++turns < PATIENCE)
			simt_pause();
		else if (finish())
			simt_die(too_soon);
}
