/* plugin_known.c - a plug-in that only a database knows: registers its name, its newest version and
 * the tunables of its rows, so that rules can be learned and judged without the shared object. It
 * runs nothing. */
#include "plugin.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/store/store.h"
#include "kernels/spec/plugin.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KNOWN_VALUES = 64 };

/* Lives as long as the process, as what is registered must. */
struct known {
	attune_plugin plugin;
	char name[32], version[MOST_VERSION + 1], hash[33];
	attune_plugin_axis axis[ATTUNE_PLUGIN_AXES];
	char axis_name[ATTUNE_PLUGIN_AXES][24];
	int value[ATTUNE_PLUGIN_AXES][MOST_KNOWN_VALUES];
	long long run;  /* the newest with the plug-in */
	unsigned needs; /* those that flags have */
	int num_axes, failed;
};

/* ---- what it does ------------------------------------------------------------------------- */
static const char *refuses(const attune_shape *s, const int *values, const attune_plugin_part *p,
			   const attune_plugin_device *d)
{
	(void)s, (void)values, (void)p, (void)d;
	return NULL;
}

static const char no_object[] = "only a database knows it: --plugin FILE loads it";

static int prepare(void **op, const attune_shape *s, const int *values,
		   const attune_plugin_device *d, char *error)
{
	(void)op, (void)s, (void)values, (void)d;
	snprintf(error, ATTUNE_PLUGIN_ERROR, "%s", no_object);
	return 1;
}

static int plan(void *op, const attune_plugin_batch *b, void **out, size_t *workspace, char *error)
{
	(void)op, (void)b, (void)out, (void)workspace;
	snprintf(error, ATTUNE_PLUGIN_ERROR, "%s", no_object);
	return 1;
}

static int launch(void *op, void *p, const attune_tensors *t, void *workspace, void *stream,
		  char *error)
{
	(void)op, (void)p, (void)t, (void)workspace, (void)stream;
	snprintf(error, ATTUNE_PLUGIN_ERROR, "%s", no_object);
	return 1;
}

static void free_plan(void *op, void *p)
{
	(void)op, (void)p;
}

static void free_op(void *op)
{
	(void)op;
}

/* ---- its rows ----------------------------------------------------------------------------- */
static int is_row_of(const struct known *k, const struct store_cell *c)
{
	return c->plugin && !strcmp(c->kernel, k->name);
}

/* The version and the identity of the newest row. */
static int find_newest(void *arg, const struct store_cell *c)
{
	struct known *k = arg;
	const char *colon = strchr(c->sources, ':');
	if (!is_row_of(k, c) || c->run < k->run || !colon)
		return 1;
	k->run = c->run;
	snprintf(k->version, sizeof k->version, "%.*s", (int)strcspn(c->plugin, " "), c->plugin);
	snprintf(k->hash, sizeof k->hash, "%s", colon + 1);
	k->needs = strstr(c->plugin, PLUGIN_E4M3_MATH) ? ATTUNE_PLUGIN_E4M3_MATH : 0;
	return 1;
}

static int add_value(struct known *k, int axis, int value)
{
	attune_plugin_axis *a = &k->axis[axis];
	for (int i = 0; i < a->num_values; i++)
		if (k->value[axis][i] == value)
			return 1;
	if (a->num_values == MOST_KNOWN_VALUES)
		return 0;
	int at = a->num_values++;
	for (; at > 0 && k->value[axis][at - 1] > value; at--)
		k->value[axis][at] = k->value[axis][at - 1];
	k->value[axis][at] = value;
	return 1;
}

/* "SPLITS=16 PACK=1": the axes of all rows, in order. */
static int add_values(void *arg, const struct store_cell *c)
{
	struct known *k = arg;
	const size_t length = strlen(k->version);
	int axis = 0, n = 0, value;
	char name[24];
	if (!is_row_of(k, c) || strncmp(c->plugin, k->version, length) || c->plugin[length] > ' ')
		return 1;
	for (const char *at = c->choice; sscanf(at, " %23[^=]=%d%n", name, &value, &n) == 2;
	     at += n, axis++) {
		if (axis == k->num_axes && axis < ATTUNE_PLUGIN_AXES)
			snprintf(k->axis_name[k->num_axes++], sizeof name, "%s", name);
		if (axis == k->num_axes || strcmp(k->axis_name[axis], name) ||
		    !add_value(k, axis, value))
			k->failed = 1;
		if (k->failed)
			return 0;
	}
	return 1;
}

static enum attune_status register_known(struct known *k, const char *gpu)
{
	for (int i = 0; i < k->num_axes; i++) {
		k->axis[i].name = k->axis_name[i];
		k->axis[i].about = "";
		k->axis[i].values = k->value[i];
		k->axis[i].dflt = k->value[i][0];
	}
	k->plugin = (attune_plugin){ .abi = ATTUNE_PLUGIN_ABI,
				     .name = k->name,
				     .version = k->version,
				     .about = "a plug-in that only the database knows",
				     .backend = strcmp(gpu, "cpu") ? "cuda" : "cpu",
				     .needs = k->needs,
				     .axes = k->axis,
				     .num_axes = k->num_axes,
				     .refuses = refuses,
				     .prepare = prepare,
				     .plan = plan,
				     .launch = launch,
				     .free_plan = free_plan,
				     .free_op = free_op };
	return attune_register_plugin(&k->plugin);
}

int plugin_know(const char *name, struct store *store, const char *gpu)
{
	struct known *k = calloc(1, sizeof *k);
	int done = 0;
	if (!k) {
		complain("out of memory");
		return 0;
	}
	snprintf(k->name, sizeof k->name, "%s", name);
	if (!store_each(store, gpu, find_newest, k) ||
	    !store_each(store, gpu, add_values, k))
		k->failed = 1;
	else if (!k->run)
		complain("no times of a plug-in '%s' are there, and none of this name is loaded; "
			 "attune --plugin FILE sweep makes such rows",
			 name);
	else if (k->failed)
		complain("the rows of plug-in '%s' name different tunables", name);
	else if (register_known(k, gpu))
		complain("%s", attune_last_error());
	else
		done = 1;
	if (done)
		source_identity_put(
		    kernel_find(strcmp(gpu, "cpu") ? BACKEND_GPU : BACKEND_CPU, name), k->hash);
	else
		free(k);
	return done;
}
