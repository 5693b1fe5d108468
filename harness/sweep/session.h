/* session.h - what the files of a sweep session share: session.c, session_code.c,
 * session_results.c and session_race.c. */
#ifndef HARNESS_SWEEP_SESSION_H
#define HARNESS_SWEEP_SESSION_H

#include "sweep.h"

/* ---- session.c ---- */
const struct scenario *session_scenario(const struct sweep_session *, const struct problem *);
/* Where `passed` and `excluded` of struct sweep_session keep a choice. */
char *session_passed(const struct sweep_session *, int built_choice, enum phase);
char *session_excluded(const struct sweep_session *, int built_choice, int shape);

/* ---- session_code.c ---- */
/* Waits for the code that these entries need. */
enum race_end session_wait_for_code(struct sweep_session *, const struct problem *,
				    const struct entries *);

/* Waits for the code of the contenders, then races them in the worker. */
enum race_end session_order(struct sweep_session *, const struct order *, const struct listener *);

/* ---- session_results.c ---- */
/* Keeps the measurement of place i of a problem. 0: the database failed. */
int session_keep(struct sweep_session *, struct problem *, int i, const struct measurement *);
/* Runs a race and keeps its results. `wanted`: of each contender; the others only run to be
 * compared with these. */
enum race_end session_run(struct sweep_session *, const char *wanted, const struct order *);

#endif
