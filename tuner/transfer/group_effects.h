/* group_effects.h - between translate.c and group_effects.c: the log ratios of one phase, and what groups of choices
 * have in common. translate.c says what a level is. */
#ifndef TUNER_TRANSFER_GROUP_EFFECTS_H
#define TUNER_TRANSFER_GROUP_EFFECTS_H


enum { NUM_LEVELS = 3 /* groups: all, kernel, family */ };

struct pair {
	int site, group[NUM_LEVELS];
	double r; /* what the levels so far leave of it */
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
	double *rest; /* [num_sites] what the last level adds */
	int *pairs;   /* [num_sites] */
};

/* 0 without memory. */
int field_add(struct log_ratios *, const struct pair *);
/* Chooses width and shrink and fits all levels; sites and their distances are there. groups: how many
 * there are of each. weight: room for one of each site. 0 without memory. */
int field_fit(struct log_ratios *, const int groups[NUM_LEVELS], double *weight);
void field_free(struct log_ratios *);
/* What a level adds to a group at a place with these weights of sites, without one of them (-1:
 * with all). */
double level_at(const struct level *, int group, const double *weight, double shrink, int without);

#endif
