/* peers.c - reads a table with times of other projects' kernels: one line each, columns separated
 * by tabs; # begins a comment.
 *
 *   model          batch             page_size  peer         us    protocol    source
 *   llama3.1-8b@1  q1ks12k_80q1s12k  16         vLLM Triton  3989  sustained   vLLM 50ac1c7bab47 */
#include "peers.h"
#include "harness/base/base.h"
#include "tuner/data/data.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODEL, BATCH, PAGE_SIZE, PEER, US, PROTOCOL, SOURCE, NUM_COLUMNS };
static const char heading[] = "model\tbatch\tpage_size\tpeer\tus\tprotocol\tsource";

/* Copies a field; 0: it is empty, too long, or has quotes, which the gnuplot scripts cannot
 * hold. */
static int copy(char *to, size_t size, const char *from)
{
	if (!*from || strlen(from) >= size || strpbrk(from, "'\"\\"))
		return 0;
	strcpy(to, from);
	return 1;
}

static int split(char *line, char *field[NUM_COLUMNS])
{
	int n = 0;
	while (line && n < NUM_COLUMNS)
		field[n++] = strsep(&line, "\t");
	return n == NUM_COLUMNS && !line;
}

/* -1: no room, or no name. */
static int name_index(struct peers *p, const char *name)
{
	int i = 0;
	while (i < p->num_names && strcmp(p->name[i], name))
		i++;
	if (i < p->num_names)
		return i;
	return i < MAX_PEERS && copy(p->name[i], sizeof p->name[0], name) ? p->num_names++ : -1;
}

/* Adds a line. Returns NULL, or what is wrong with it. */
static const char *add(struct peers *p, char *line)
{
	struct peer_time *t = &p->v[p->n];
	char *field[NUM_COLUMNS], *end[2];
	if (p->n == MAX_PEER_TIMES)
		return "is one line too many; 400 are read";
	if (!split(line, field))
		return "should have seven columns, separated by tabs";
	t->page_size = (int)strtol(field[PAGE_SIZE], &end[0], 10);
	t->us = strtod(field[US], &end[1]);
	if (*end[0] || t->page_size < 1 || *end[1] || !(t->us > 0 && t->us < 1e12))
		return "should have a page_size of 1 or more and us above 0";
	if (!copy(t->model, sizeof t->model, field[MODEL]) ||
	    !copy(t->batch, sizeof t->batch, field[BATCH]))
		return "should have a model and a batch, without quotes";
	if (!copy(t->protocol, sizeof t->protocol, field[PROTOCOL]))
		return "should have a protocol of at most 23 letters, without quotes";
	t->peer = name_index(p, field[PEER]);
	if (t->peer < 0)
		return "names a tenth peer, or none that fits";
	p->n++;
	return NULL;
}

static int read_lines(struct peers *p, FILE *f, const char *path)
{
	char *line = NULL;
	size_t size = 0;
	const char *wrong = NULL;
	int nth = 0, headed = 0;
	while (!wrong && getline(&line, &size, f) >= 0) {
		nth++;
		line[strcspn(line, "\r\n")] = '\0';
		if (!*line || *line == '#')
			continue;
		if (headed)
			wrong = add(p, line);
		else if (strcmp(line, heading))
			wrong = "should be the heading: model, batch, page_size, peer, us, "
				"protocol, source, separated by tabs";
		headed = 1;
	}
	if (wrong)
		complain("%s:%d: %s", path, nth, wrong);
	else if (ferror(f))
		complain("%s: %s", path, strerror(errno));
	free(line);
	return !wrong && !ferror(f);
}

int peers_load(struct peers *p, const char *gpu, const char *path)
{
	char name[GPU_NAME + 24], own[PATH_TEXT];
	snprintf(name, sizeof name, "scenarios/peers_%s.tsv", gpu);
	FILE *f = fopen(path ? path : data_path(own, name), "r");
	*p = (struct peers){ 0 };
	if (!f && !path && errno == ENOENT)
		return 1;
	if (!f) {
		complain("%s: %s", path ? path : own, strerror(errno));
		return 0;
	}
	const int done = read_lines(p, f, path ? path : own);
	fclose(f);
	return done;
}

/* The peers' caches are strided and have the type of the queries. */
static int is_theirs(const struct measured *m)
{
	return m->shape.kv_layout == ATTUNE_KV_STRIDED && m->shape.kv_dtype == m->shape.dtype;
}

const struct peer_time *peers_fastest(const struct peers *p, const struct measured *m, int peer)
{
	const struct peer_time *best = NULL;
	for (const struct peer_time *t = p->v; is_theirs(m) && t < p->v + p->n; t++)
		if ((peer < 0 || t->peer == peer) && t->page_size == m->shape.page_size &&
		    !strcmp(t->model, m->model) && !strcmp(t->batch, m->batch_text) &&
		    (!best || t->us < best->us))
			best = t;
	return best;
}
