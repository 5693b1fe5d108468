/* peers.h - times of other projects' kernels, as tables that SQL asks (peers.sql). */
#ifndef TUNER_COMPARE_PEERS_H
#define TUNER_COMPARE_PEERS_H

#include "tuner/base/base.h"

struct scratch;

/* The path of a race with plug-ins: `given`, else results/NAME_peers.sqlite. */
void peers_path(char path[PATH_TEXT], const char *given, const char *gpu);
/* Makes the tables, without rows. 0 + complain. */
int peers_tables(struct scratch *);
/* Adds the kernels of plug-ins from a database, whether they are loaded or not. 0 + complain. */
int peers_read(struct scratch *, const char *gpu, const char *db);

#endif
