/* bridge.h - between the files of `attune bridge`:
 *
 *   bridge_cmd.c    the command, and its table
 *   bridge.c        sources that are not today's, what was compiled of them, and where their text is
 *   bridge_code.c   bridges by equal machine code
 *   bridge_race.c   bridges by races of the old source against today's
 *   bridge_racer.c  the process that races
 *   bridge_pick.c   what such races run
 *   kernel_trees.c         kernels folders of other versions
 *   machine_code.c  what of a binary decides what the processor executes
 *   store_bridge.c  the tables */
#ifndef HARNESS_BRIDGE_BRIDGE_H
#define HARNESS_BRIDGE_BRIDGE_H

#include "kernel_trees.h"
#include "harness/scenario/scenario.h"
#include "kernels/kernel.h"

struct store;

/* ---- bridge_cmd.c -------------------------------------------------------------- */
int cmd_bridge(int argc, char **argv);

/* A flag set that an old source was compiled with, and what came of it. */
enum equality {
	NOT_COMPARED,
	EQUAL,
	DIFFERENT,
	NEW_REFUSED, /* today's source does not compile with these flags */
	OLD_REFUSED
};
struct flag_set {
	char *flags;
	enum equality is;
};

/* The builds that have the source and these flags in the database: those of a helper's user. */
struct old_build {
	char *flags; /* "": plans */
	long long rows;
	int *set, sets; /* numbers of flag sets: those of the source's own binaries */
};

struct old_source {
	char name[64], identity[64], today[33];
	const struct kernel *kernel; /* NULL: there is none of that name today */
	char arch[CODE_ARCH];
	const char *root; /* a kernels folder that has it; NULL: none was found */
	const char *tree; /* the name of that tree */
	long long rows, provisional;
	struct old_build *build;
	struct flag_set *set;
	int builds, sets;
};

struct bridges {
	struct store *store, *into; /* into: where bridges go */
	const char *db, *gpu;
	char commit[48];
	enum backend backend;
	struct old_source *v; /* those with most rows first */
	int n;
};

/* What the database has that is not today's: of the kernels named, NULL-terminated; NULL: of
 * all. 0 + complain. */
int bridges_read(struct bridges *, char **kernels);
/* Finds each source's text among the trees, in their order. Trees are extracted until there is
 * nothing left to find. 0 + complain. */
int bridges_find(struct bridges *, struct trees *);
void bridges_free(struct bridges *);

/* How a source fared. */
struct finding {
	const char *how;              /* "code", "race"; NULL: neither was tried */
	int equal, refused;           /* flag sets; refused: today's source does not compile */
	int batches;                  /* raced */
	double mean, p95;             /* of today's time to the old one; as of store_bridge */
	double floor_mean, floor_p95; /* of today's to its own */
	long long bridged;            /* rows that it takes out of the stale ones */
	const char *verdict;
};

/* Compares, and stores what is equal. 0: interrupted, no compiler, or it cannot be stored. */
int bridge_by_code(struct bridges *, struct old_source *, struct finding *);

enum { MOST_RACES = 60, FEWEST_RACES = 30, FEWEST_ACCEPTED = 10 };
/* A batch that a source is raced on, with the fastest choice that the database has of it there. */
struct pick {
	struct scenario scenario;
	enum phase phase;
	struct choice choice;
	double us;
};
struct picks {
	struct pick *v;
	int n, known; /* known: as many the database has */
};
/* `most` for each source, to picks[bridges->n], spread over head sizes, phases and times. 0 +
 * complain. */
int bridge_pick(struct bridges *, int most, struct picks *);
void picks_free(struct picks *);

struct race_options {
	double budget_s;
	int batches, rounds; /* at most; of each */
	int anyway;          /* on a busy machine, too */
	int accept;          /* a bridge although times differ, by 2 % at most */
	unsigned long long seed;
};
/* Races the sources that are left against today's on the device that is here. An exit code;
 * findings [bridges->n]. */
int bridge_by_race(struct bridges *, const struct race_options *, struct finding *);
/* What races say: ratio[n] of today's time to the old one, again[n] of today's to its own, n up
 * to MOST_RACES. The verdict of sources that are equally fast is "bridged". With accept it may also be
 * "accepted": 10 batches or more, a quiet device, and a mean within 2 %. */
void bridge_judge(struct finding *, const double *ratio, const double *again, int n, int accept);

#endif
