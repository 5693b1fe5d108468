/* SPDX-License-Identifier: Apache-2.0 */
/* plot.h - shared by the files of `attune plot`.
 *
 *   plot.c      the command: chooses the data
 *   facts.c     fills the tables that the queries ask (facts.sql)
 *   peers.c     times of other projects' kernels, which raced as plug-ins (peers.sql)
 *   intervals.c how sure their times are
 *   pictures.c  reads the two files of a picture and asks its query
 *   gnuplot.c   runs gnuplot, writes the files
 *   pictures/   the pictures: NAME.sql asks, NAME.gp draws */
#ifndef TUNER_PLOT_PLOT_H
#define TUNER_PLOT_PLOT_H

#include "tuner/base/base.h"
#include <stdio.h>

struct data;
struct forest;
struct scratch;

struct plotted {
	const struct data *data;
	const struct forest *forest;
	int first, end; /* scenarios of the model that the curves show */
	int with_stale; /* times of older sources count */
};
/* The model is that of the longest run of scenarios that differ only in the batch. */
struct plotted plotted_make(const struct data *, const struct forest *);

/* The tables of facts.sql, filled, and those of peers.sql, empty; NULL + complain. */
struct scratch *facts_make(const struct plotted *);

/* ---- peers.c -------------------------------------------------------------------------- */
/* The path of a race with plug-ins: `given`, else results/NAME_peers.sqlite. */
void peers_path(char path[PATH_TEXT], const char *given, const char *gpu);
/* Makes the tables, without rows. 0 + complain. */
int peers_tables(struct scratch *);
/* Adds the kernels of plug-ins from a database, whether they are loaded or not. 0 + complain. */
int peers_read(struct scratch *, const char *gpu, const char *db);

/* ---- intervals.c ---------------------------------------------------------------------- */
struct cell;
/* Half of the 95 % interval of a row's median, as a share of it; NAN: not known. */
double cell_interval(const struct cell *);
/* The same of a time that a query of the data answered with; NAN: it is no row's. */
double time_interval(const struct data *, int scenario, double us);

struct picture {
	char name[64], *sql, *script, needs[160];
	int width, height;
	int of_peers; /* from the database of a race with plug-ins, if there is one */
};
/* The text of NAME.SUFFIX in the folder, for the caller to free; NULL + complain. */
char *picture_part(const char *folder, const char *name, const char *suffix);
/* 0 + complain; freed by picture_free in any case. */
int picture_load(struct picture *, const char *folder, const char *name);
void picture_free(struct picture *);
/* Asks a picture's query: the rows, and gnuplot's variables. The number of rows; -1 + complain. */
int picture_ask(const struct picture *, struct scratch *, FILE *rows, FILE *settings);
/* NAME = 'text'. 0 + complain: gnuplot must not get the text. */
int setting_text(FILE *, const char *name, const char *text);
/* What style.sql answers. 0 + complain. */
int style_ask(const char *sql, struct scratch *, FILE *settings);

struct canvas {
	const char *gpu, *folder; /* of the files */
	char *style, *says;       /* of all pictures: style.gp, and the query style.sql */
	struct scratch *facts;
};
/* Draws into FOLDER/GPU_NAME.svg and .png; 0 + complain. */
int picture_draw(const struct picture *, const struct canvas *);

#endif
