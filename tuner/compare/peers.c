/* peers.c - reads the times of other projects' kernels from the rows of plug-ins into the table of
 * peers.sql. */
#include "peers.h"
#include "harness/base/base.h"
#include "harness/scratch/scratch.h"
#include "harness/store/store.h"
#include "kernels/device/shared/gpu_names.h"
#include "harness/plugin/plugin.h"
#include "tuner/base/base.h"
#include "tuner/data/data.h"
#include <stdio.h>
#include <string.h>

EMBED(peers_schema, "tuner/compare/peers.sql")

/* The kernel that runs both parts of a plan; NULL: none does. */
static const char *kernel_of_plan(const char *text, char part[2][MAX_PART_TEXT])
{
	enum attune_how how;
	if (!parts_parse(text, part, &how))
		return NULL;
	for (int i = 0; i < 2; i++)
		part[i][strcspn(part[i], " ")] = '\0';
	return strcmp(part[0], part[1]) ? NULL : part[0];
}

static int add_row(void *arg, const struct store_cell *c)
{
	char part[2][MAX_PART_TEXT], version[52];
	const char *peer = c->plugin ? c->kernel : NULL;
	if (!strcmp(c->phase, phase_name(NUM_PHASES)))
		peer = kernel_of_plan(c->choice, part);
	if (!peer || strcmp(c->outcome, outcome_name(OUTCOME_OK)))
		return scratch_add(arg, "peer_row(scenario, phase)", "is", (int)c->scenario_id,
				   c->phase);
	if (c->plugin)
		snprintf(version, sizeof version, "%.*s", (int)strcspn(c->plugin, " "), c->plugin);
	return scratch_add(arg, "peer_row", "isssisiisdd", (int)c->scenario_id, c->phase, peer,
			   c->plugin ? version : NULL,
			   c->plugin && strstr(c->plugin, PLUGIN_E4M3_MATH), c->model, c->page_size,
			   (int)c->shape.kv_dtype, c->batch, c->median_us, c->ci_us);
}

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
	char whole
	    [GPU_NAME]; /* without the suffix of E4M3 caches, which are rows like others here */
	snprintf(whole, sizeof whole, "%.*s", gpu_length(gpu), gpu);
	struct store *store = store_open(db, 1);
	const int read = store && store_each(store, whole, add_row, t);
	store_close(store);
	return read;
}
