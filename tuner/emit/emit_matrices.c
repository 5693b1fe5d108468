/* emit_matrices.c - writes the cost matrices as tables, to try other learners on the same data
 * (tests/tuner/t_sklearn.sh does), and the costs of our trees on them. */
#include "emit.h"
#include "harness/base/base.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CURVE_DEPTH = 9, CURVE_LEAVES = 64, CURVE_SUPPORT = 2 };

static FILE *open_table(const char *folder, enum decision decision, const char *suffix)
{
	char path[600];
	snprintf(path, sizeof path, "%s/%s%s.tsv", folder, decision_names[decision], suffix);
	FILE *out = fopen(path, "w");
	if (!out)
		complain("%s: %s", path, strerror(errno));
	return out;
}

/* Columns: fold, weight, fallback, features, then a cost for each choice; "-": forbidden. */
static int write_matrix(const struct matrix *m, FILE *out)
{
	int *fold = malloc(sizeof *fold * (size_t)(m->rows + 1));
	if (!fold)
		return 0;
	matrix_folds(m, 0, fold);
	fprintf(out, "fold\tweight\tfallback");
	for (int f = 0; f < ATTUNE_NUM_FEATURES; f++)
		fprintf(out, "\t%s", feature_names[f]);
	for (int c = 0; c < m->cols; c++)
		fprintf(out, "\tcost%d", c);
	for (int r = 0; r < m->rows; r++) {
		const long long *value = (const long long *)&m->f[r];
		fprintf(out, "\n%d\t%d\t%d", fold[r], m->weight[r], m->fallback[r]);
		for (int f = 0; f < ATTUNE_NUM_FEATURES; f++)
			fprintf(out, "\t%lld", value[f]);
		for (int c = 0; c < m->cols; c++) {
			const int32_t cost = m->cost[(size_t)r * (size_t)m->cols + (size_t)c];
			if (cost == COST_FORBIDDEN)
				fprintf(out, "\t-");
			else
				fprintf(out, "\t%d", cost);
		}
	}
	fprintf(out, "\n");
	free(fold);
	return 1;
}

static int write_curve(const struct matrix *m, FILE *out)
{
	const struct growth how = { CURVE_LEAVES, CURVE_DEPTH, CURVE_SUPPORT, 0, 0, SIZE_MOST, 0 };
	long long trained[CURVE_LEAVES + 1], held_out[CURVE_LEAVES + 1];
	if (!tree_curve(m, &how, 0, trained, held_out))
		return 0;
	fprintf(out, "leaves\ttrained\theld_out\n");
	for (int leaves = 1; leaves <= CURVE_LEAVES; leaves++)
		fprintf(out, "%d\t%lld\t%lld\n", leaves, trained[leaves], held_out[leaves]);
	return 1;
}

static int dump(const struct matrix *m, const char *folder, enum decision decision)
{
	FILE *out = open_table(folder, decision, "");
	int done = out && write_matrix(m, out);
	done = out && !fclose(out) && done;
	out = done ? open_table(folder, decision, "_ours") : NULL;
	done = out && write_curve(m, out);
	return out && !fclose(out) && done;
}

int dump_matrices(const struct data *d, const char *folder, const struct limits *limits)
{
	int done = 1;
	for (int i = 0; done && i <= DECIDE_DECODE; i++) {
		struct matrix *m = matrix_parts(d, (enum decision)i);
		done = m != NULL;
		if (m && m->rows && m->cols)
			done = matrix_portfolio(m, limits->variants, -1, NULL) &&
			       dump(m, folder, (enum decision)i);
		matrix_free(m);
	}
	if (!done)
		complain("the cost matrices could not be written to '%s'; is it a folder?", folder);
	return done;
}
