/* SPDX-License-Identifier: Apache-2.0 */
/* binaries.c - the binaries that a header needs for a shape: those of the choices that its batches
 * can reach, of all in the rows of these, and the helpers. */
#include "selector.h"
#include "kernels/device/hip/hip.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include <stdio.h>
#include <string.h>

struct device_info device_of_arch(const char *arch)
{
	static const struct {
		const char *archs;
		int kib;
	} more[] = { { "sm_80 sm_87", 163 }, { "sm_90 sm_100 sm_103 sm_110", 227 } };
	const struct hip_chip *chip = hip_chip(arch);
	struct device_info d = { .lanes = chip ? 64 : 32, .units = chip ? 1 : 132 };
	int kib = 99;
	snprintf(d.arch, sizeof d.arch, "%s", arch);
	for (size_t i = 0; i < COUNT(more); i++)
		if (strstr(more[i].archs, arch))
			kib = more[i].kib;
	d.smem_per_block = chip ? (int)chip->lds : kib << 10;
	d.smem_per_unit = chip ? (int)chip->lds : (kib + 1) << 10;
	return d;
}

/* The n-th word of a list; its length, 0: there is none. */
static int word_of(const char *list, int n, const char **word)
{
	for (; n; n--) {
		list += strcspn(list, " ");
		list += *list == ' ';
	}
	*word = list;
	return (int)strcspn(list, " ");
}

static enum attune_dtype type_of(const char *word, int length)
{
	enum attune_dtype t = ATTUNE_F32;
	while (t < ATTUNE_E4M3 &&
	       (strncmp(dtype_name(t), word, (size_t)length) || dtype_name(t)[length]))
		t++;
	return t;
}

attune_shape shape_of_binary(int head_size, enum attune_dtype dtype, enum attune_dtype kv_dtype)
{
	return (attune_shape){ .num_query_heads = 128,
			       .num_kv_heads = 16,
			       .head_size = head_size,
			       .page_size = 16,
			       .dtype = dtype,
			       .kv_dtype = kv_dtype,
			       .causal = 1,
			       .has_new_kv = 1 };
}

/* The shape of the walk's size and type; 0: the row has no such size or type. */
static int shape_at(const struct selector_shapes *row, const struct binary_walk *w,
		    attune_shape *shape)
{
	const char *size, *type;
	const int letters = word_of(row->types, w->type, &type);
	const int query = (int)strcspn(type, "/ ");
	if (!word_of(row->sizes, w->size, &size) || !letters)
		return 0;
	const enum attune_dtype dtype = type_of(type, query);
	*shape = shape_of_binary(
	    0, dtype, query < letters ? type_of(type + query + 1, letters - query - 1) : dtype);
	return sscanf(size, "%d", &shape->head_size) == 1;
}

/* Steps to the next head size, type or row. */
static void next_shape(const struct selector *h, struct binary_walk *w)
{
	const char *word;
	const struct selector_shapes *row = &h->shapes[w->row];
	w->item = 0;
	if (word_of(row->types, ++w->type, &word))
		return;
	w->type = 0;
	if (word_of(row->sizes, ++w->size, &word))
		return;
	w->size = 0;
	w->row++;
}

/* Whether a leaf at or below the node answers id for some batch of the shape. A binary serves all
 * numbers of heads, page sizes and windows. */
static int node_reaches(const struct selector *h, int node, const attune_shape *shape, int id)
{
	const struct selector_node *n = &h->nodes[node];
	const long long fixed = n->feature == ATTUNE_FEATURE_head_size ? shape->head_size
				: n->feature == ATTUNE_FEATURE_kv_bytes
				    ? dtype_bytes(shape->kv_dtype)
				    : -1;
	if (n->feature < 0)
		return n->value == id;
	return ((fixed < 0 || fixed <= n->value) && node_reaches(h, node + 1, shape, id)) ||
	       ((fixed < 0 || fixed > n->value) && node_reaches(h, n->above, shape, id));
}

static int reaches(const struct selector *h, enum decision decision, const attune_shape *shape,
		   int id)
{
	return h->num_nodes && node_reaches(h, h->root[decision], shape, id);
}

static enum backend backend_of(const struct selector *h)
{
	return strcmp(h->gpu, "cpu") ? BACKEND_GPU : BACKEND_CPU;
}

static int is_named(const struct selector *h, const attune_shape *shape, int id)
{
	int named = 0;
	for (int t = DECIDE_PREFILL; t <= DECIDE_OVERLAP; t++)
		named |= reaches(h, (enum decision)t, shape, id);
	return named;
}

/* Whether a leaf names the choice, or one in whose row it is. */
static int may_run(const struct selector *h, const attune_shape *shape, int id)
{
	int may = is_named(h, shape, id);
	for (int i = 0; i < h->num_lists && !may; i++)
		for (int m = 1; m < h->lists[i].n && !may; m++)
			may = h->lists[i].at[m] == id && is_named(h, shape, h->lists[i].at[0]);
	return may;
}

/* A choice that some batch of the shape may run. */
static const struct kernel *choice_at(const struct selector *h, int id, const attune_shape *shape,
				      const struct device_info *d, struct config *c)
{
	const struct kernel *k = kernel_find(backend_of(h), h->choices[id].kernel);
	attune_shape stored = *shape;
	const char *where;
	if (!k || !config_parse(c, k->space, h->choices[id].text, &where) || !may_run(h, shape, id))
		return NULL;
	if (k->space->kv_layout != KV_LAYOUT_ANY)
		stored.kv_layout = (enum attune_kv_layout)k->space->kv_layout;
	return k->space->why_illegal(c, &stored, NULL, d) ? NULL : k;
}

/* The helper if it takes the shape, and a choice that the shape may run needs it. Always the
 * reduction: the defaults may have segments. */
static const struct kernel *helper_at(const struct selector *h, enum helper helper,
				      const attune_shape *shape, const struct device_info *d,
				      struct config *c)
{
	const struct kernel *helps = kernel_helper(backend_of(h), helper);
	int needed = helper == HELPER_REDUCE;
	for (int id = 0; id < h->num_choices && !needed; id++) {
		const struct kernel *k = choice_at(h, id, shape, d, c);
		needed = k && (helper == HELPER_SCHEDULE ? kernel_takes(k, c, helper)
							 : kernel_may_take(k, c, helper));
	}
	if (!helps || !needed)
		return NULL;
	config_default(c, helps->space);
	return helps->space->why_illegal(c, shape, NULL, d) ? NULL : helps;
}

int selector_binary_of(const struct selector *h, const attune_shape *shape,
		       const struct device_info *d, struct binary_walk *w)
{
	while (w->item < h->num_choices + NUM_HELPERS) {
		const int item = w->item++, helper = item - h->num_choices;
		struct config c;
		const struct kernel *k = helper < 0
					     ? choice_at(h, item, shape, d, &c)
					     : helper_at(h, (enum helper)helper, shape, d, &c);
		if (!k)
			continue;
		w->kernel = k->name;
		binary_flags(w->flags, sizeof w->flags, k, &c, shape);
		return 1;
	}
	return 0;
}

int selector_next_binary(const struct selector *h, struct binary_walk *w)
{
	const struct device_info d = device_of_arch(h->arch);
	for (; w->row < h->num_shapes; next_shape(h, w)) {
		attune_shape shape;
		if (shape_at(&h->shapes[w->row], w, &shape) && selector_binary_of(h, &shape, &d, w))
			return 1;
	}
	return 0;
}
