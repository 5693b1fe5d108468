/* SPDX-License-Identifier: Apache-2.0 */
/* rules_file.c - reads and checks the header that ATTUNE_HEURISTICS names. Owns its text, the rows
 * that point into it and the nodes of its trees. What a header must have besides its form:
 *
 *   the device's GPU, or that with E4M3_SUFFIX; PORTABLE_GPU on any NVIDIA GPU from sm_80 on
 *   this library's hash of the features and segment costs, and of each kernel that it lists
 *   a row of KERNELS for each kernel that a choice names
 *   choices that this library's .def tables list; a row of SEGMENTS for each with SEGMENTS=fitted,
 *   and for no others */
#include "header_text.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/status.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 1 << 20 };

struct override {
	struct selector selector;
	char *text;
	struct header *header;
	struct selector_kernel kernels[HEADER_KERNELS];
	struct selector_row choices[HEADER_CHOICES];
	struct selector_node *nodes;
};

/* ---- what is in it ---------------------------------------------------------------------- */
static int check_gpu(struct header_text *r, const struct header *h, const struct device_info *d)
{
	if (!gpu_is_own(h->gpu, d) && (strcmp(h->gpu, PORTABLE_GPU) || !runs_ptx(d))) {
		r->at = h->gpu_at;
		return header_wrong(r, "the device in use is \"%s\" (%.60s): its header is", d->gpu,
				    d->name);
	}
	if (h->is_emulated) {
		r->at = strstr(r->start, "#ifndef ATTUNE_EMULATED");
		return header_wrong(r, "it was made on an emulated device: a header of times is");
	}
	return 1;
}

/* The hash of a row of KERNELS must be the one in this library. */
static int check_kernel(struct header_text *r, const struct header_kernel *row,
			const struct device_info *d, struct selector_kernel *out)
{
	const int is_rules = !strcmp(row->where, "rules");
	const char *where = d->backend == BACKEND_CPU ? "cpu" : "gpu";
	const struct kernel *k =
	    is_rules || strcmp(row->where, where) ? NULL : kernel_find(d->backend, row->name);
	const unsigned long long hash = is_rules ? rules_hash() : k ? kernel_hash(k) : 0;
	*out = (struct selector_kernel){ row->where, row->name, row->hash };
	r->at = row->at;
	if (!is_rules && !k)
		return header_wrong(r, "%s %s is no kernel of this library: one of its own is",
				    row->where, row->name);
	if (hash != row->hash)
		return header_wrong(r,
				    "%s of this library is 0x%016llx: the header written again by "
				    "attune induce --gpu %s is",
				    is_rules ? "the hash of features and segment costs"
					     : "the hash of that kernel's tunables",
				    hash, d->gpu);
	return 1;
}

static int is_listed(const struct header *h, const char *where, const char *name)
{
	for (int i = 0; i < h->num_kernels; i++)
		if (!strcmp(h->kernel[i].where, where) &&
		    (!name || !strcmp(h->kernel[i].name, name)))
			return 1;
	return 0;
}

static int check_choice(struct header_text *r, const struct header *h, int id,
			const struct device_info *d)
{
	const struct header_choice *row = &h->choice[id];
	char text[MAX_PART_TEXT], error[600];
	struct choice c;
	snprintf(text, sizeof text, "%s %s", row->kernel, row->text);
	r->at = row->at;
	if (!choice_parse(&c, d->backend, text, error, sizeof error))
		return header_wrong(r, "%s: a choice of this library is", error);
	if (!is_listed(h, d->backend == BACKEND_CPU ? "cpu" : "gpu", row->kernel))
		return header_wrong(r, "a row of KERNELS for %s is", row->kernel);
	const int is_fitted = config_is_fitted(&c.config, c.kernel->space);
	const int has_costs = costs_for(h->costs, h->num_costs, id, 1) != NULL;
	if (is_fitted != has_costs)
		return header_wrong(r, is_fitted ? "a row of SEGMENTS for SEGMENTS=fitted is"
						 : "SEGMENTS=fitted where SEGMENTS has a row is");
	return 1;
}

static int check_all(struct override *o, struct header_text *r, const struct device_info *d)
{
	const struct header *h = o->header;
	if (!check_gpu(r, h, d))
		return 0;
	for (int i = 0; i < h->num_kernels; i++)
		if (!check_kernel(r, &h->kernel[i], d, &o->kernels[i]))
			return 0;
	if (!is_listed(h, "rules", NULL)) {
		r->at = strstr(r->start, "_KERNELS(KERNEL)");
		return header_wrong(r, "a row of KERNELS for rules, features is");
	}
	for (int i = 0; i < h->num_choices; i++) {
		if (!check_choice(r, h, i, d))
			return 0;
		o->choices[i] = (struct selector_row){ h->choice[i].kernel, h->choice[i].text };
	}
	return 1;
}

/* ---- its trees -------------------------------------------------------------------------- */
/* Appends a subtree in preorder; returns the number of nodes then. */
static int add_nodes(struct selector_node *nodes, int n, const struct header_tree *t, int node)
{
	const struct header_node *v = &t->v[node];
	struct selector_node *to = &nodes[n++];
	if (v->below < 0) {
		*to = (struct selector_node){ .feature = -1, .value = v->says };
		return n;
	}
	to->feature = feature_named(v->word);
	to->value = v->threshold;
	n = add_nodes(nodes, n, t, v->below);
	to->above = n;
	return add_nodes(nodes, n, t, v->above);
}

static enum attune_status add_trees(struct override *o)
{
	const struct header *h = o->header;
	struct selector *s = &o->selector;
	int n = 1;
	for (int d = 0; d < NUM_DECISIONS; d++)
		n += h->tree[d].n;
	o->nodes = calloc((size_t)n, sizeof *o->nodes);
	if (!o->nodes)
		return fail(ATTUNE_NO_MEMORY, "attune_open: out of memory");
	for (int d = n = 0; d < NUM_DECISIONS; d++) {
		s->root[d] = n;
		if (h->tree[d].n)
			n = add_nodes(o->nodes, n, &h->tree[d], 0);
		else
			o->nodes[n++] = (struct selector_node){ .feature = -1, .value = SAYS_OWN };
	}
	for (int i = s->root[DECIDE_OVERLAP]; i < s->root[DECIDE_EARLY]; i++)
		s->overlaps |= o->nodes[i].feature < 0 && o->nodes[i].value != SAYS_SERIAL;
	s->nodes = o->nodes;
	s->num_nodes = n;
	return ATTUNE_OK;
}

/* ---- the file --------------------------------------------------------------------------- */
static enum attune_status read_text(char **text, const char *path)
{
	FILE *in = fopen(path, "rb");
	const int cause = errno;
	*text = malloc(MAX_BYTES + 1);
	if (!in || !*text) {
		if (in)
			fclose(in);
		return in ? fail(ATTUNE_NO_MEMORY, "attune_open: out of memory")
			  : fail(ATTUNE_INVALID, "%s: %s; ATTUNE_HEURISTICS should name a header",
				 path, strerror(cause));
	}
	errno = 0;
	const size_t size = fread(*text, 1, MAX_BYTES + 1, in);
	const int failed = ferror(in) ? errno : 0;
	fclose(in);
	if (failed)
		return fail(ATTUNE_INVALID, "%s: %s; ATTUNE_HEURISTICS should name a header", path,
			    strerror(failed));
	if (size > MAX_BYTES)
		return fail(ATTUNE_INVALID, "%s: more than %d bytes; no header is that long", path,
			    MAX_BYTES);
	(*text)[size] = '\0';
	if (strlen(*text) < size)
		return fail(ATTUNE_INVALID, "%s: a NUL byte; plain text is expected", path);
	return ATTUNE_OK;
}

static enum attune_status parse(struct override *o, const char *path, const struct device_info *d)
{
	struct header_text r = { .start = o->text, .at = o->text };
	struct header *h = o->header = calloc(1, sizeof *h);
	char error[1000];
	if (!h)
		return fail(ATTUNE_NO_MEMORY, "attune_open: out of memory");
	if (!header_read(h, &r) || !check_all(o, &r, d)) {
		header_error(&r, path, error, sizeof error);
		return fail(ATTUNE_INVALID, "%s", error);
	}
	o->selector = (struct selector){ .gpu = h->gpu,
					 .arch = h->arch,
					 .kernels = o->kernels,
					 .num_kernels = h->num_kernels,
					 .choices = o->choices,
					 .num_choices = h->num_choices,
					 .lists = h->list,
					 .num_lists = h->num_lists,
					 .costs = h->costs,
					 .num_costs = h->num_costs,
					 .mixed = h->mixed };
	return add_trees(o);
}

enum attune_status override_open(struct override **out, const char *path,
				 const struct device_info *d)
{
	struct override *o = calloc(1, sizeof *o);
	*out = NULL;
	if (!o)
		return fail(ATTUNE_NO_MEMORY, "attune_open: out of memory");
	enum attune_status status = read_text(&o->text, path);
	if (!status)
		status = parse(o, path, d);
	if (status)
		override_close(o);
	else
		*out = o;
	return status;
}

const struct selector *override_selector(const struct override *o)
{
	return &o->selector;
}

void override_close(struct override *o)
{
	if (!o)
		return;
	if (o->header)
		header_free(o->header);
	free(o->header);
	free(o->nodes);
	free(o->text);
	free(o);
}
