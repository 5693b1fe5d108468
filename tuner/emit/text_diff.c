/* text_diff.c - prints the lines in which two texts differ, by longest common subsequence, with
 * three lines of context. */
#include "emit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AROUND = 3 };

struct lines {
	const char **v;
	int n;
};

/* Cuts `text` in place. */
static int cut_lines(char *text, struct lines *l)
{
	int n = 0;
	for (const char *p = text; *p; p++)
		n += *p == '\n';
	l->n = 0;
	l->v = malloc(sizeof *l->v * (size_t)(n + 2));
	for (char *line = text, *end; l->v && *line; line = end) {
		end = line + strcspn(line, "\n");
		if (*end)
			*end++ = '\0';
		l->v[l->n++] = line;
	}
	return l->v != NULL;
}

/* common[i * (b->n + 1) + j]: lines that a[i..] and b[j..] have in common. */
static int *count_common(const struct lines *a, const struct lines *b)
{
	const size_t w = (size_t)b->n + 1;
	int *common = calloc(((size_t)a->n + 1) * w, sizeof *common);
	if (!common)
		return NULL;
	for (size_t i = (size_t)a->n; i-- > 0;)
		for (size_t j = (size_t)b->n; j-- > 0;) {
			const int down = common[(i + 1) * w + j], right = common[i * w + j + 1];
			common[i * w + j] = !strcmp(a->v[i], b->v[j])
						? 1 + common[(i + 1) * w + j + 1]
					    : down > right ? down
							   : right;
		}
	return common;
}

struct edit {
	char sign;
	const char *line;
};

static int make_edits(const struct lines *a, const struct lines *b, const int *common,
		      struct edit *edit)
{
	const size_t w = (size_t)b->n + 1;
	int n = 0;
	for (int i = 0, j = 0; i < a->n || j < b->n;) {
		if (i < a->n && j < b->n && !strcmp(a->v[i], b->v[j]))
			edit[n++] = (struct edit){ ' ', a->v[i] }, i++, j++;
		else if (j == b->n || (i < a->n && common[((size_t)i + 1) * w + (size_t)j] >=
						       common[(size_t)i * w + (size_t)j + 1]))
			edit[n++] = (struct edit){ '-', a->v[i++] };
		else
			edit[n++] = (struct edit){ '+', b->v[j++] };
	}
	return n;
}

static void print_edits(FILE *out, const struct edit *edit, int n)
{
	int shown = -1, line = 1; /* line: of the first text */
	for (int i = 0; i < n; i++) {
		int near = 0;
		for (int k = i - AROUND; k <= i + AROUND; k++)
			near |= k >= 0 && k < n && edit[k].sign != ' ';
		if (near && shown != i - 1)
			fprintf(out, "@@ line %d @@\n", line);
		if (near)
			fprintf(out, "%c%s\n", edit[i].sign, edit[i].line), shown = i;
		line += edit[i].sign != '+';
	}
}

void text_diff(FILE *out, const char *before, const char *after)
{
	char *texts[2] = { strdup(before), strdup(after) };
	struct lines l[2] = { { 0 } };
	int *common = NULL;
	struct edit *edit = NULL;
	if (texts[0] && texts[1] && cut_lines(texts[0], &l[0]) && cut_lines(texts[1], &l[1])) {
		common = count_common(&l[0], &l[1]);
		edit = malloc(sizeof *edit * (size_t)(l[0].n + l[1].n + 1));
	}
	if (common && edit)
		print_edits(out, edit, make_edits(&l[0], &l[1], common, edit));
	free(edit);
	free(common);
	for (int i = 0; i < 2; i++) {
		free(l[i].v);
		free(texts[i]);
	}
}
