/* emit_binaries.c - lists the binaries that the library must ship: for each measured shape, those of
 * the choices that its batches can reach. */
#include "writing.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct binary_list {
	char (*flags)[MAX_FLAGS];
	const struct kernel **kernel;
	int n, room, failed;
};

static void add_binary(struct binary_list *b, const struct kernel *k, const struct config *c,
		       const attune_shape *shape)
{
	char flags[MAX_FLAGS];
	binary_flags(flags, sizeof flags, k, c, shape);
	for (int i = 0; i < b->n; i++)
		if (b->kernel[i] == k && !strcmp(b->flags[i], flags))
			return;
	if (b->n == b->room) {
		b->room = 2 * b->room + 32;
		void *kernels = realloc(b->kernel, (size_t)b->room * sizeof *b->kernel);
		b->kernel = kernels ? kernels : b->kernel;
		void *texts = realloc(b->flags, (size_t)b->room * sizeof *b->flags);
		b->flags = texts ? texts : b->flags;
		b->failed |= !kernels || !texts;
	}
	if (b->failed)
		return;
	b->kernel[b->n] = k;
	memcpy(b->flags[b->n++], flags, sizeof flags);
}

struct reach {
	const struct tree *tree;
	int *ids; /* 1 where reached */
};

static void mark(void *arg, int leaf, const struct box *box)
{
	const struct reach *r = arg;
	const int id = r->tree->v[leaf].action;
	(void)box;
	if (id >= 0)
		r->ids[id] = 1;
}

/* Marks the ids that some batch of this shape can reach. Only compiled-in features are fixed: a
 * binary serves all head counts, page sizes and windows. */
static void reachable(const struct emitter *e, const attune_shape *shape, int ids[MAX_IDS])
{
	struct box within;
	box_all(&within);
	within.lo[ATTUNE_FEATURE_head_size] = within.hi[ATTUNE_FEATURE_head_size] =
	    shape->head_size;
	within.lo[ATTUNE_FEATURE_kv_bytes] = within.hi[ATTUNE_FEATURE_kv_bytes] =
	    dtype_bytes(shape->kv_dtype);
	within.lo[ATTUNE_FEATURE_units] = within.hi[ATTUNE_FEATURE_units] = e->d->run.device.units;
	memset(ids, 0, MAX_IDS * sizeof *ids);
	static const enum decision named[] = { DECIDE_PREFILL, DECIDE_DECODE, DECIDE_OVERLAP };
	for (size_t i = 0; i < COUNT(named); i++) {
		const enum decision t = named[i];
		struct reach r = { &e->f->tree[t], ids };
		tree_boxes(r.tree, &within, mark, &r);
	}
}

static void add_helper(struct binary_list *b, enum helper helper, const struct device_info *dev,
		       const attune_shape *shape)
{
	const struct kernel *k = kernel_helper(dev->backend, helper);
	struct config c;
	if (!k)
		return;
	config_default(&c, k->space);
	if (!k->space->why_illegal(&c, shape, NULL, dev))
		add_binary(b, k, &c, shape);
}

static void add_shape(const struct emitter *e, struct binary_list *b, const attune_shape *shape)
{
	const struct device_info *dev = &e->d->run.device;
	int ids[MAX_IDS];
	int scheduled = 0, wide = 0;
	reachable(e, shape, ids);
	for (int i = 0; i < e->f->num_choices; i++) {
		const struct choice *choice = &e->f->choice[i];
		if (!ids[i] ||
		    choice->kernel->space->why_illegal(&choice->config, shape, NULL, dev))
			continue;
		add_binary(b, choice->kernel, &choice->config, shape);
		scheduled |= kernel_takes(choice->kernel, &choice->config, HELPER_SCHEDULE);
		wide |= kernel_may_take(choice->kernel, &choice->config, HELPER_REDUCE_WIDE);
	}
	/* always the reduction: the defaults may have segments */
	add_helper(b, HELPER_REDUCE, dev, shape);
	if (wide)
		add_helper(b, HELPER_REDUCE_WIDE, dev, shape);
	if (scheduled)
		add_helper(b, HELPER_SCHEDULE, dev, shape);
}

/* The same shape in F16. Kernels do the same work for F16 and BF16, so times of BF16 choose for
 * both. 0: none. */
static int twin(const struct device_info *dev, const attune_shape *shape, attune_shape *other)
{
	*other = *shape;
	if (dev->backend == BACKEND_CPU || shape->dtype != ATTUNE_BF16)
		return 0;
	other->dtype = ATTUNE_F16;
	other->kv_dtype = shape->kv_dtype == ATTUNE_BF16 ? ATTUNE_F16 : shape->kv_dtype;
	return 1;
}

/* ---- rows: binaries that differ in head size and type alone are one row -------------------- */
enum { TYPE = 24, WORDS = 128 };
struct piece {
	const struct kernel *kernel;
	int size; /* 0: of any */
	char type[TYPE];
	const char *rest;
};

/* "-DHEAD_SIZE=64 -DDTYPE=BF16 [-DKV_DTYPE=E4M3] rest" */
static struct piece piece_of(const struct kernel *k, const char *flags)
{
	struct piece p = { .kernel = k, .rest = flags };
	char cache[TYPE / 2] = "", type[TYPE / 2];
	int n = 0;
	if (sscanf(flags, "-DHEAD_SIZE=%d -DDTYPE=%11s%n", &p.size, type, &n) != 2)
		return p;
	int more = 0;
	if (sscanf(flags + n, " -DKV_DTYPE=%11s%n", cache, &more) == 1)
		n += more;
	snprintf(p.type, sizeof p.type, "%s%s%s", type, *cache ? "/" : "", cache);
	p.rest = flags + n + (flags[n] == ' ');
	return p;
}

static int piece_order(const void *pa, const void *pb)
{
	const struct piece *a = pa, *b = pb;
	if (a->kernel != b->kernel)
		return a->kernel < b->kernel ? -1 : 1;
	const int rest = strverscmp(a->rest, b->rest);
	if (rest)
		return rest;
	return a->size != b->size ? a->size - b->size : strcmp(a->type, b->type);
}

static void add_word(char words[WORDS], const char *word)
{
	const size_t n = strlen(words);
	snprintf(words + n, WORDS - n, "%s%s", n ? " " : "", word);
}

/* The types of the first head size in p; returns its number of pieces. */
static int types_of(const struct piece *p, int n, char types[WORDS])
{
	int i = 0;
	types[0] = '\0';
	for (; i < n && p[i].size == p->size; i++)
		add_word(types, p[i].type);
	return i;
}

/* The head sizes among n pieces that have exactly these types, in order; returns the first. */
static int sizes_of(const struct piece *p, int n, const char *types, char sizes[WORDS])
{
	char others[WORDS], size[12];
	int first = 0;
	sizes[0] = '\0';
	for (int i = 0, step; i < n; i += step) {
		step = types_of(&p[i], n - i, others);
		if (!p[i].size || strcmp(types, others))
			continue;
		first = *sizes ? first : p[i].size;
		snprintf(size, sizeof size, "%d", p[i].size);
		add_word(sizes, size);
	}
	return first;
}

/* Writes n pieces of one kernel and rest: a row for each set of types, at the first head size with
 * that set. */
static void emit_rows(FILE *out, const struct piece *p, int n)
{
	char types[WORDS], sizes[WORDS];
	for (int i = 0, step; i < n; i += step) {
		step = types_of(&p[i], n - i, types);
		if (sizes_of(p, n, types, sizes) == p[i].size)
			fprintf(out, " \\\n\tBINARY(%s, \"%s\", \"%s\", \"%s\")", p->kernel->name,
				sizes, types, p->rest);
	}
}

static int print(const struct binary_list *b, FILE *out)
{
	struct piece *p = malloc(sizeof *p * (size_t)(b->n + 1));
	for (int i = 0; p && i < b->n; i++)
		p[i] = piece_of(b->kernel[i], b->flags[i]);
	if (p)
		qsort(p, (size_t)b->n, sizeof *p, piece_order);
	for (int i = 0, end; p && i < b->n; i = end) {
		end = i;
		while (end < b->n && p[end].kernel == p[i].kernel &&
		       !strcmp(p[end].rest, p[i].rest))
			end++;
		emit_rows(out, &p[i], end - i);
	}
	free(p);
	return p != NULL;
}

int emit_binaries(const struct emitter *e)
{
	struct binary_list b = { 0 };
	attune_shape other;
	for (int s = 0; s < e->d->n; s++) {
		add_shape(e, &b, &e->d->v[s].shape);
		if (twin(&e->d->run.device, &e->d->v[s].shape, &other))
			add_shape(e, &b, &other);
	}
	fprintf(e->out, "#define ATTUNE_%s_BINARIES(BINARY)", e->upper);
	const int done = !b.failed && print(&b, e->out);
	fputs("\n\n", e->out);
	free(b.flags);
	free(b.kernel);
	return done;
}
