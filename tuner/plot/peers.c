/* SPDX-License-Identifier: Apache-2.0 */
/* peers.c - reads the times of other projects' kernels from the rows of plug-ins into the table of
 * peers.sql. */
#include "plot.h"
#include "harness/base/base.h"
#include "harness/scratch/scratch.h"
#include "tuner/base/base.h"
#include "tuner/data/data.h"
#include <stdio.h>

EMBED(peers_schema, "tuner/plot/peers.sql")

void peers_path(char path[PATH_TEXT], const char *given, const char *gpu)
{
	char name[GPU_NAME + 8];
	snprintf(name, sizeof name, "%s_peers", gpu);
	db_path_to_read(path, given, name);
}

int peers_tables(struct scratch *t)
{
	return scratch_also(t, peers_schema);
}

int peers_read(struct scratch *t, const char *gpu, const char *db)
{
	return data_attach(t, db, "raced", gpu) &&
	       scratch_also(t, "INSERT INTO peer_row SELECT * FROM raced_row");
}
