/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_kernel.c - loads shared objects, and adds a plug-in (attune_plugin.h) to the table of
 * kernels.
 *
 * The functions of a struct space are not told which kernel they belong to. So each free place of
 * the table has functions of its own, made by a macro, that pass its number on. */
#include "plugin.h"
#include "harness/base/base.h"
#include "kernels/segments.h"
#include "kernels/spec/device_info.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include "kernels/spec/status.h"
#include <ctype.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct slot {
	const attune_plugin *plugin;
	struct axis axis[ATTUNE_PLUGIN_AXES];
	struct space space;
} slots[MOST_PLUGINS];
static int num_plugins;

static const char *const rules[] = { NULL };

attune_plugin_device plugin_device(const struct device_info *d)
{
	const char *backend = d->backend == BACKEND_CPU     ? "cpu"
			      : !strncmp(d->arch, "gfx", 3) ? "hip"
							    : "cuda";
	return (attune_plugin_device){
		.backend = backend, .arch = d->arch, .ordinal = d->ordinal, .units = d->units
	};
}

/* The same span, counted from the first sequence of the part. */
static attune_span within(attune_span s, const struct part *p)
{
	s.seq_begin -= s.seq_count ? p->seq_begin : 0;
	return s;
}

static const char *why_illegal_in(const struct slot *s, const struct config *c,
				  const attune_shape *shape, const struct part *p,
				  const struct device_info *d)
{
	const attune_plugin_device device = plugin_device(d);
	if (strcmp(device.backend, s->plugin->backend))
		return "it is a plug-in for another kind of device";
	if (!p)
		return s->plugin->refuses(shape, c->v, NULL, &device);
	if (p->f.num_seqs != p->seq_count)
		return "a plug-in takes sequences that follow one another";
	const attune_plugin_part part = { .num_seqs = p->seq_count,
					  .min_query = p->min_query,
					  .max_query = p->max_query,
					  .query_tokens = p->f.query_tokens,
					  .kv_tokens = p->f.kv_tokens,
					  .max_seq = p->f.max_seq,
					  .prefills = within(p->prefill, p),
					  .decodes = within(p->decode, p) };
	return s->plugin->refuses(shape, c->v, &part, &device);
}

/* A grid that leaves no unit idle, as far as one can know. */
static void geometry(const struct config *c, const attune_shape *shape, const struct part *p,
		     const struct device_info *d, struct geometry *g)
{
	(void)c, (void)shape, (void)p;
	*g = (struct geometry){
		.x = (unsigned)d->units, .y = 1, .z = 1, .threads = 1, .segments = 1
	};
}

/* A version as databases have it: without characters that separate flags or words.
 * "617264c1_2026-08-06" */
static void clean_version(char text[MOST_VERSION + 1], const char *version)
{
	size_t n = 0;
	for (; version[n] && n < MOST_VERSION; n++)
		text[n] = isalnum((unsigned char)version[n]) || strchr(".+-", version[n])
			      ? version[n]
			      : '_';
	text[n] = '\0';
}

/* A plug-in is prepared for a whole shape, so all of the shape names its "binary"; and its version
 * and what its times must be marked with, which the database keeps. */
static int given_in(const struct slot *slot, char *text, size_t size, const attune_shape *s)
{
	char version[MOST_VERSION + 1];
	const int is_rounded =
	    slot->plugin->needs & ATTUNE_PLUGIN_E4M3_MATH && s->kv_dtype == ATTUNE_E4M3;
	clean_version(version, slot->plugin->version);
	return snprintf(text, size,
			PLUGIN_FLAG
			"%s -DHEADS=%d -DKV_HEADS=%d -DHEAD_SIZE=%d -DDTYPE=%s "
			"-DKV_DTYPE=%s -DPAGE_SIZE=%d -DCAUSAL=%d -DWINDOW=%d -DSCALE=%g "
			"-DSOFTCAP=%g -DSINKS=%d -DALIBI=%d -DLAYOUT=%d -DLSE=%d%s",
			version, s->num_query_heads, s->num_kv_heads, s->head_size,
			dtype_name(s->dtype), dtype_name(s->kv_dtype), s->page_size, s->causal,
			s->window, (double)s->scale, (double)s->softcap, s->has_sinks, s->has_alibi,
			(int)s->kv_layout, s->has_lse, is_rounded ? " " PLUGIN_E4M3_MATH : "");
}

/* A choice has no tiles of its own. */
static int block_heads(const struct config *c)
{
	(void)c;
	return 0;
}

#define DEFINE(n)                                                                             \
	static const char *why_illegal_##n(const struct config *c, const attune_shape *s,     \
					   const struct part *p, const struct device_info *d) \
	{                                                                                     \
		return why_illegal_in(&slots[n], c, s, p, d);                                 \
	}                                                                                     \
	static int given_##n(char *text, size_t size, const attune_shape *s)                  \
	{                                                                                     \
		return given_in(&slots[n], text, size, s);                                    \
	}
EACH_PLUGIN_PLACE(DEFINE)
static const struct {
	const char *(*why_illegal)(const struct config *, const attune_shape *, const struct part *,
				   const struct device_info *);
	int (*given)(char *text, size_t size, const attune_shape *);
} functions[] = {
#define NAME(n) { why_illegal_##n, given_##n },
	EACH_PLUGIN_PLACE(NAME)
};
_Static_assert(COUNT(functions) == MOST_PLUGINS, "functions for each place");

/* ---- what is wrong with a plug-in ------------------------------------------------------- */

static int is_word(const char *text, size_t most, int is_upper)
{
	size_t n = 0;
	for (; text && text[n]; n++) {
		const unsigned char c = (unsigned char)text[n];
		const int is_letter = is_upper ? isupper(c) : islower(c);
		if (!is_letter && c != '_' && (!isdigit(c) || !n))
			return 0;
	}
	return n > 0 && n <= most;
}

static int is_version(const char *text)
{
	size_t n = 0;
	while (text && isprint((unsigned char)text[n]))
		n++;
	return n > 0 && n <= MOST_VERSION && !text[n];
}

static int is_listed(const int *values, int n, int value)
{
	while (n && values[n - 1] != value)
		n--;
	return n > 0;
}

static const char *axis_error(const attune_plugin_axis *a)
{
	if (!is_word(a->name, 23, 1))
		return "an axis has no name of capitals, digits and '_', of 23 at most";
	if (!strcmp(a->name, "SPARE_UNITS"))
		return "an axis is called SPARE_UNITS, which means plans of two streams";
	if (!a->values || a->num_values < 1)
		return "an axis has no values";
	for (int i = 1; i < a->num_values; i++)
		if (is_listed(a->values, i, a->values[i]))
			return "an axis has a value twice";
	if (!is_listed(a->values, a->num_values, a->dflt))
		return "the default of an axis is none of its values";
	return NULL;
}

/* The length of "SPLITS=16 " with the longest value. */
static int axis_length(const attune_plugin_axis *a)
{
	int most = 0;
	for (int i = 0; i < a->num_values; i++) {
		const int n = snprintf(NULL, 0, "%s=%d ", a->name, a->values[i]);
		most = n > most ? n : most;
	}
	return most;
}

static const char *axes_error(const attune_plugin *p)
{
	const char *why = NULL;
	int length = (int)strlen(p->name) + 1;
	if (p->num_axes < 0 || p->num_axes > ATTUNE_PLUGIN_AXES || (p->num_axes && !p->axes))
		return "it has more than 8 axes, or says so";
	for (int i = 0; i < p->num_axes && !why; i++) {
		why = axis_error(&p->axes[i]);
		for (int j = 0; j < i && !why; j++)
			if (!strcmp(p->axes[i].name, p->axes[j].name))
				why = "two axes have one name";
		length += why ? 0 : axis_length(&p->axes[i]);
	}
	return why || length <= MAX_CHOICE_TEXT
		   ? why
		   : "its name and axes as text are longer than 223 characters";
}

enum {
	ALL_NEEDS = ATTUNE_PLUGIN_FINITE_SLOTS | ATTUNE_PLUGIN_DENSE_ROWS |
		    ATTUNE_PLUGIN_ONE_SCALE | ATTUNE_PLUGIN_NO_SCALES | ATTUNE_PLUGIN_E4M3_MATH |
		    ATTUNE_PLUGIN_Q_TYPE_MATH
};

static const char *plugin_error(const attune_plugin *p)
{
	if (!is_word(p->name, 31, 0))
		return "its name is not of lower-case letters, digits and '_', 31 at most";
	if (!is_version(p->version))
		return "its version is not of 1 to 48 printable characters";
	if (!p->backend ||
	    (strcmp(p->backend, "cpu") && strcmp(p->backend, "cuda") && strcmp(p->backend, "hip")))
		return "its backend is none of cpu, cuda, hip";
	if (p->needs & ~(unsigned)ALL_NEEDS)
		return "it needs what this attune does not know";
	if (!p->refuses || !p->prepare || !p->plan || !p->launch || !p->free_plan || !p->free_op)
		return "a function is missing";
	return axes_error(p);
}

/* ---- registration ------------------------------------------------------------------------ */

static void fill_slot(struct slot *s, int n, const attune_plugin *p)
{
	s->plugin = p;
	for (int i = 0; i < p->num_axes; i++)
		s->axis[i] = (struct axis){ .name = p->axes[i].name,
					    .about = p->axes[i].about ? p->axes[i].about : "",
					    .is_static = 1,
					    .dflt = p->axes[i].dflt,
					    .values = p->axes[i].values,
					    .num_values = p->axes[i].num_values };
	s->space = (struct space){ .axis = s->axis,
				   .num_axes = p->num_axes,
				   .formula_axis = -1,
				   .why_illegal = functions[n].why_illegal,
				   .geometry = geometry,
				   .given = functions[n].given,
				   .rules = rules,
				   .kv_layout = KV_LAYOUT_ANY,
				   .block_heads = block_heads,
				   .early_axis = -1 };
}

enum attune_status plugin_register(const attune_plugin *p)
{
	const char *why;
	if (!p)
		return fail(ATTUNE_INVALID, "the plug-in is NULL");
	if (p->abi != ATTUNE_PLUGIN_ABI)
		return fail(ATTUNE_INVALID,
			    "a plug-in is of ABI %d; attune has %d: compile it with "
			    "this attune_plugin.h",
			    p->abi, ATTUNE_PLUGIN_ABI);
	why = plugin_error(p);
	if (why)
		return fail(ATTUNE_INVALID, "plug-in \"%.31s\": %s", p->name ? p->name : "", why);
	const enum backend backend = strcmp(p->backend, "cpu") ? BACKEND_GPU : BACKEND_CPU;
	if (kernel_find(backend, p->name))
		return fail(ATTUNE_INVALID, "plug-in \"%s\": a kernel has this name", p->name);
	if (num_plugins == MOST_PLUGINS)
		return fail(ATTUNE_INVALID,
			    "plug-in \"%s\": there are %d already, which is the most", p->name,
			    MOST_PLUGINS);
	struct slot *s = &slots[num_plugins];
	fill_slot(s, num_plugins++, p);
	struct kernel *end = attune_kernels;
	while (end->name)
		end++;
	*end = (struct kernel){ .name = p->name,
				.backend = backend,
				.selectable = 1,
				.source = p->version,
				.about = p->about ? p->about : "plug-in",
				.space = &s->space,
				.plugin = p };
	return ATTUNE_OK;
}

/* ---- shared objects ---------------------------------------------------------------- */
/* Opens a plug-in's shared object and registers its kernels: "FILE"; "FILE:one,two" registers two
 * of them. */

/* An empty list has all. */
static int is_asked(const char *names, const char *name)
{
	return !*names || list_has(names, name);
}

/* Each name must be of a kernel of the object. */
static int names_are_there(const char *file, const char *names, const attune_plugin *const *all)
{
	for (const char *at = names; *at; at += strcspn(at, ","), at += *at == ',') {
		const size_t n = strcspn(at, ",");
		const attune_plugin *const *p = all;
		while (*p && (strlen((*p)->name) != n || strncmp(at, (*p)->name, n)))
			p++;
		if (!*p) {
			complain("--plugin %s: it has no kernel \"%.*s\"", file, (int)n, at);
			return 0;
		}
	}
	return 1;
}

/* Splits "FILE:NAMES", unless a file has this name. */
static const char *split_names(char *path, const char *file)
{
	char *colon = strrchr(path, ':');
	if (!colon || !access(file, F_OK))
		return "";
	*colon = '\0';
	return colon + 1;
}

int plugin_load(const char *file)
{
	char asked[PATH_MAX], path[PATH_MAX];
	const attune_plugin *const *(*list)(void);
	snprintf(asked, sizeof asked, "%s", file);
	const char *names = split_names(asked, file);
	if (!realpath(asked, path)) {
		complain("--plugin %s: there is no such file", file);
		return 0;
	}
	void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!object) {
		complain("--plugin %s: %s", file, dlerror());
		return 0;
	}
	void *symbol = dlsym(object, "attune_plugins");
	if (!symbol) {
		complain("--plugin %s: it does not export attune_plugins (attune_plugin.h)", file);
		return 0;
	}
	memcpy(&list, &symbol, sizeof list);
	const attune_plugin *const *p = list();
	if (!p || !*p) {
		complain("--plugin %s: its attune_plugins lists no kernel", file);
		return 0;
	}
	if (!names_are_there(file, names, p))
		return 0;
	for (; *p; p++)
		if (is_asked(names, (*p)->name) && plugin_register(*p)) {
			complain("--plugin %s: %s", file, attune_last_error());
			return 0;
		}
	return 1;
}
