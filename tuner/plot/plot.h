/* plot.h - shared by the files of `attune plot`.
 *
 *   plot.c           the command: chooses the data, runs gnuplot, writes the files
 *   plot_values.c    what the pictures share: times by policy, axis ranges, names
 *   plot_decode.c    decode latency by batch size
 *   plot_kernels.c   latency of each kernel by tokens
 *   plot_roofline.c  shares of the device's ceilings
 *   plot_regret.c    distance of each policy from the fastest plan
 *   plot_paper.c     the ladder and prompts, to compare with published figures
 *   plot_hybrid.c    one prompt chunk with many decodes: gain of each overlap
 *   plot_mixed.c     such batches against the ideal and against other projects' kernels
 *   plot_peers.c     other projects' kernels against the tuned choice
 *   gnuplot/         the scripts that draw them
 *
 * A picture's rows are text in blocks, separated by two blank lines (gnuplot's index). */
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
	struct pick *pick[NUM_POLICIES]; /* [data->n]; NULL: the policy does not exist here */
	int first, end;                  /* scenarios of the model that the curves show */
};

/* The time of a policy's plan in us; INFINITY: not measured. */
double plotted_time(const struct plotted *, enum policy, int scenario);
/* The noise floor of the A/A controls: the largest of the three bands. `text` gets all three. */
double plotted_noise(const struct plotted *, char text[160]);

/* "512", "4k" */
void length_text(char text[24], int tokens);

/* The range of an axis. */
struct range {
	double lo, hi;
};
#define NO_RANGE ((struct range){ INFINITY, 0 })
void range_stretch(struct range *, double v);
void range_print(FILE *settings, const char *name, struct range); /* <name>_lo, <name>_hi */
void words_print(FILE *settings, const char *name, char text[][24], int n); /* name = "a b c" */
/* The number of rows of each block. */
void filled_print(FILE *settings, const int *filled, int n);

/* Each writes the rows of its picture and the gnuplot settings that only this picture needs.
 * Returns the number of rows; 0: nothing to draw. */
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
