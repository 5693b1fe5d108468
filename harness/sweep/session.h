/* SPDX-License-Identifier: Apache-2.0 */
/* session.h - what session.c, session_race.c and stages.c share. */
#ifndef HARNESS_SWEEP_SESSION_H
#define HARNESS_SWEEP_SESSION_H

#include "sweep.h"

/* ---- session.c ---- */
const struct scenario *session_scenario(const struct sweep_session *, const struct problem *);
/* Where `passed` and `excluded` of struct sweep_session keep a choice. */
char *session_passed(const struct sweep_session *, int built_choice, enum phase);
char *session_excluded(const struct sweep_session *, int built_choice, int shape);

/* Waits for the code of the contenders. */
enum race_end session_wait_for_code(struct sweep_session *, const struct order *);
/* Races them in the worker. */
enum race_end session_order(struct sweep_session *, const struct order *, const struct listener *);

/* ---- session_race.c ---- */
/* Whether the time of any contender is a result. */
int order_wants_any(const struct order *);

#endif
