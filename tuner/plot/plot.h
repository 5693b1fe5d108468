/* plot.h - inside attune plot. For plot*.c only.
 *
 *   plot.c         the command: what to draw, gnuplot, files
 *   plot_series.c  the numbers of each picture, as text that gnuplot reads
 *   plot_paper.c   those of the pictures that go with published ones
 *   plot_hybrid.c  that of one chunk of a prompt beside decodes
 *   plot_mixed.c   that of such batches against the ideal, and against others' times
 *   plot_peers.c   that of others' kernels beside the tuned choice
 *   plots/         what the pictures look like */
#ifndef TUNER_PLOT_PLOT_H
#define TUNER_PLOT_PLOT_H

#include "tuner/compare/peers.h"
#include "tuner/policy/policy.h"
#include <stdio.h>

struct data;
struct forest;
struct pick;

struct plotted {
	const struct data *data;
	const struct data *all; /* with other layouts of the cache */
	const struct forest *forest;
	const struct peers *peers;
	struct pick *pick[NUM_POLICIES]; /* [data->n]; NULL: there is no such policy here */
	int first, end;                  /* scenarios of the one model that curves are of */
};

/* Us by a policy; INFINITY where it has no measured time. */
double plotted_time(const struct plotted *, enum policy, int scenario);
/* The share below which two times do not differ, by A/A controls: the largest of the bands;
 * all of them in words to `text`. */
double plotted_noise(const struct plotted *, char text[160]);

/* "512", "4k" */
void length_text(char text[24], int tokens);

/* What an axis has to hold. */
struct range {
	double lo, hi;
};
#define NO_RANGE ((struct range){ INFINITY, 0 })
void range_stretch(struct range *, double v);
void range_print(FILE *settings, const char *name, struct range); /* <name>_lo, <name>_hi */
/* How many rows each block has. */
void filled_print(FILE *settings, const int *filled, int n);

/* Each writes the rows of a picture, and gnuplot settings that only it needs. The
 * number of rows; 0: nothing to draw. */
int series_decode(const struct plotted *, FILE *rows, FILE *settings);
int series_kernels(const struct plotted *, FILE *rows, FILE *settings);
int series_roofline(const struct plotted *, FILE *rows, FILE *settings);
int series_regret(const struct plotted *, FILE *rows, FILE *settings);
int series_ladder(const struct plotted *, FILE *rows, FILE *settings);
int series_prefill(const struct plotted *, FILE *rows, FILE *settings);
int series_hybrid(const struct plotted *, FILE *rows, FILE *settings);
int series_mixed(const struct plotted *, FILE *rows, FILE *settings);
int series_peers(const struct plotted *, FILE *rows, FILE *settings);

#endif
