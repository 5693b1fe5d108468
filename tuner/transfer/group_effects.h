/* group_effects.h - the log ratios of one phase, and the effects of groups of choices that are
 * fitted to them. Private to translate.c, which defines levels, and group_effects.c. */
#ifndef TUNER_TRANSFER_GROUP_EFFECTS_H
#define TUNER_TRANSFER_GROUP_EFFECTS_H

enum { NUM_LEVELS = 3 /* groups: all, kernel, family */ };

struct pair {
	int site, group[NUM_LEVELS];
	double r; /* residual after the levels so far */
};

/* The mean of a group's pairs in a site. */
struct mean {
	int group, site, n;
	double r;
};

struct level {
	struct mean *v; /* by group, then by site */
	int n, *first;  /* [groups + 1] */
	int is_near;
};

/* The pairs of a phase. */
struct log_ratios {
	struct pair *pair;
	int num_pairs, room;
	int *site, num_sites; /* [num_sites] scenario of the prior */
	double *far;          /* [num_sites][num_sites] */
	struct level level[2 * NUM_LEVELS];
	double width, shrink;
	double *rest; /* [num_sites] effect of the scenario itself, the last level */
	int *pairs;   /* [num_sites] number of pairs */
};

/* 0 without memory. */
int log_ratios_add(struct log_ratios *, const struct pair *);
/* Chooses width and shrink and fits all levels; sites and distances must be set. groups: number of
 * groups per level. weight: scratch, [num_sites]. 0 without memory. */
int log_ratios_fit(struct log_ratios *, const int groups[NUM_LEVELS], double *weight);
void log_ratios_free(struct log_ratios *);
/* The effect of a group on a level, given the weights of sites; leaves out one site (-1: none). */
double level_at(const struct level *, int group, const double *weight, double shrink, int without);

#endif
