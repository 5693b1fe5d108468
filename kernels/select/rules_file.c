/* rules_file.c - reads and checks the heuristics file that ATTUNE_HEURISTICS names. Owns the file's
 * text, the choices that point into it and the nodes of its trees.
 *
 * One item a line; '#' begins a comment; blank lines are ignored:
 *
 *   attune heuristics 4                 these three first, in this order
 *   gpu GPU                             the device's
 *   rules 0xHASH                        rules_hash(), of features and segment costs
 *   kernel KERNEL 0xHASH                every kernel that a choice names, others are allowed:
 *                                       kernel_hash(), of the kernel's tunables
 *   choice ID KERNEL AXIS=VALUE ...     any number, IDs from 0 up
 *   segments ID HEAD_SIZE NUMBER ...    any number, for choices with SEGMENTS=fitted:
 *                                       the members of struct segment_costs, in order
 *   tree prefill                        four trees in this order, each followed by
 *   tree decode                         its nodes in preorder:
 *   tree overlap                          if FEATURE <= NUMBER
 *   tree early                            return ID
 *                                       the last two are optional, default "return -1"
 *
 * Two subtrees follow an `if`: first the one where it holds. IDs of leaves (enum says):
 *
 *   prefill, decode  a choice; -1 or `defaults`: the library's defaults
 *   overlap          a choice; -1: serial; `one_launch`; `streams`
 *   early            a value of an early axis; -1 or `own`: the choice's own
 *
 * The first enum has the limits. */
#include "selector.h"
#include "rules_file_words.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KERNELS = 64, MAX_CHOICES = 256, MAX_COSTS = 4096, MAX_DEPTH = 64 };

struct override {
	struct selector selector;
	char *text;
	struct selector_kernel *kernels;
	struct selector_row *choices;
	struct selector_costs *costs;
	struct selector_node *nodes;
	int num_nodes;
	char is_fitted[MAX_CHOICES]; /* has SEGMENTS=fitted */
};

/* ---- before the trees --------------------------------------------------------------- */

static int read_version(struct reader *r)
{
	static const char line[] = "attune heuristics 4";
	reader_next_line(r);
	return reader_expect(r, "attune", line) && reader_expect(r, "heuristics", line) &&
	       reader_expect(r, "4", line) && reader_line_ends(r);
}

static int read_gpu(struct reader *r)
{
	char line[GPU_NAME + 8];
	snprintf(line, sizeof line, "gpu %s", r->device->gpu);
	reader_next_line(r);
	if (!reader_expect(r, "gpu", line))
		return 0;
	r->out->selector.gpu = reader_word(r);
	if (strcmp(r->out->selector.gpu, r->device->gpu))
		return reader_wrong(r, r->out->selector.gpu, "the device in use is \"%s\" (%s)",
				    r->device->gpu, r->device->name);
	return reader_line_ends(r);
}

/* A hash that must be the one of `what` in this library, then the end of the line. */
static int read_hash(struct reader *r, const char *what, unsigned long long hash)
{
	char want[24];
	const char *found = reader_word(r);
	snprintf(want, sizeof want, "0x%016llx", hash);
	if (strcmp(found, want))
		return reader_wrong(
		    r, found,
		    "%s of this library are %s; write the file again with: attune induce "
		    "--gpu %s --emit text",
		    what, want, r->device->gpu);
	return reader_line_ends(r);
}

static int read_rules(struct reader *r)
{
	reader_next_line(r);
	return reader_expect(r, "rules", "rules 0xHASH") &&
	       read_hash(r, "features and segment costs", rules_hash());
}

/* "KERNEL 0xHASH" */
static int read_kernel(struct reader *r)
{
	struct selector *s = &r->out->selector;
	char what[80];
	const char *name = reader_word(r);
	const struct kernel *k = kernel_find(r->device->backend, name);
	if (!k)
		return reader_wrong(r, name, "this library has no such kernel");
	if (s->num_kernels == MAX_KERNELS)
		return reader_wrong(r, name, "at most %d kernels can be listed", MAX_KERNELS);
	r->out->kernels[s->num_kernels++] =
	    (struct selector_kernel){ r->device->backend == BACKEND_CPU ? "cpu" : "gpu", k->name,
				      kernel_hash(k) };
	snprintf(what, sizeof what, "the tunables of %s", k->name);
	return read_hash(r, what, kernel_hash(k));
}

static int is_listed(const struct selector *s, const struct kernel *k)
{
	for (int i = 0; i < s->num_kernels; i++)
		if (!strcmp(s->kernels[i].name, k->name))
			return 1;
	return 0;
}

/* "ID KERNEL AXIS=VALUE ..." */
static int read_choice(struct reader *r)
{
	struct selector *s = &r->out->selector;
	char error[600];
	struct choice c;
	long long id;
	if (s->num_choices == MAX_CHOICES)
		return reader_wrong(r, r->at, "at most %d choices can be listed", MAX_CHOICES);
	if (!reader_number(r, "the next choice", s->num_choices, s->num_choices, &id))
		return 0;
	if (!choice_parse(&c, r->device->backend, r->at, error, sizeof error))
		return reader_wrong(r, r->at, "%s", error);
	const char *name = reader_word(r);
	if (!is_listed(s, c.kernel))
		return reader_wrong(r, name, "a line \"kernel %s 0xHASH\" is expected above", name);
	r->out->is_fitted[s->num_choices] = (char)config_is_fitted(&c.config, c.kernel->space);
	r->out->choices[s->num_choices++] = (struct selector_row){ c.kernel->name, r->at };
	return 1;
}

/* "ID HEAD_SIZE SLOTS START PATH SPLIT SEGMENTS MERGE" */
static int read_costs(struct reader *r)
{
	struct selector *s = &r->out->selector;
	struct selector_costs *row = &r->out->costs[s->num_costs];
	struct segment_costs *c = &row->costs;
	const char *line = r->at;
	long long id, size, slots, start;
	if (s->num_costs == MAX_COSTS)
		return reader_wrong(r, r->at, "at most %d lines of segments can be listed",
				    MAX_COSTS);
	if (!reader_number(r, "a choice listed above", 0, s->num_choices - 1, &id) ||
	    !reader_number(r, "a head size", 1, 1 << 16, &size) ||
	    !reader_number(r, "slots", 1, MOST_SLOTS, &slots) ||
	    !reader_number(r, "start", 0, MOST_START, &start) ||
	    !reader_number(r, "path", 0, MOST_OF_MANY, &c->path) ||
	    !reader_number(r, "split", 0, MOST_OF_FEW, &c->split) ||
	    !reader_number(r, "segments", 0, MOST_OF_FEW, &c->segments) ||
	    !reader_number(r, "merge", 0, MOST_OF_MANY, &c->merge))
		return 0;
	if (!r->out->is_fitted[id])
		return reader_wrong(r, line, "choice %lld does not say SEGMENTS=fitted", id);
	for (int i = 0; i < s->num_costs; i++)
		if (r->out->costs[i].id == id && r->out->costs[i].head_size == size)
			return reader_wrong(r, line,
					    "choice %lld has another line above for head size %lld",
					    id, size);
	row->id = (int)id;
	row->head_size = (int)size;
	c->slots = (int)slots;
	c->start = (int)start;
	s->num_costs++;
	return reader_line_ends(r);
}

/* A choice without costs could never run: the defaults would silently take its place. */
static int all_have_costs(struct reader *r)
{
	const struct selector *s = &r->out->selector;
	for (int id = 0; id < s->num_choices; id++)
		if (r->out->is_fitted[id] && !costs_for(s->costs, s->num_costs, id, 1))
			return reader_wrong(
			    r, r->at,
			    "choice %d says SEGMENTS=fitted: a line \"segments %d HEAD_SIZE "
			    "SLOTS START PATH SPLIT SEGMENTS MERGE\" is expected above",
			    id, id);
	return 1;
}

/* ---- trees -------------------------------------------------------------------------- */
enum { MOST_WORDS = 2 };
enum { LAST_CHOICE = -1 };
static const struct ids { /* the IDs that a leaf may return */
	int least, most;  /* or LAST_CHOICE */
	struct {
		const char *word;
		int says;
	} words[MOST_WORDS];
} all_ids[NUM_DECISIONS] = {
	[DECIDE_PREFILL] = { SAYS_DEFAULTS, LAST_CHOICE, { { "defaults", SAYS_DEFAULTS } } },
	[DECIDE_DECODE] = { SAYS_DEFAULTS, LAST_CHOICE, { { "defaults", SAYS_DEFAULTS } } },
	[DECIDE_OVERLAP] = { SAYS_SERIAL,
			     LAST_CHOICE,
			     { { "one_launch", SAYS_ONE_LAUNCH }, { "streams", SAYS_STREAMS } } },
	[DECIDE_EARLY] = { SAYS_OWN, MOST_EARLY, { { "own", SAYS_OWN } } },
};

static int unknown_feature(struct reader *r, const char *found)
{
	char all[500] = "";
	for (int i = 0; i < ATTUNE_NUM_FEATURES; i++)
		snprintf(all + strlen(all), sizeof all - strlen(all), " %s", feature_names[i]);
	return reader_wrong(r, found, "a feature is expected:%s", all);
}

static int read_node(struct reader *r, int depth, const struct ids *);

/* "FEATURE <= NUMBER", then two subtrees on the next lines. */
static int read_if(struct reader *r, int depth, const struct ids *ids)
{
	struct selector_node *n = &r->out->nodes[r->out->num_nodes++];
	const char *name = reader_word(r);
	n->feature = feature_named(name);
	if (n->feature < 0)
		return unknown_feature(r, name);
	if (!reader_expect(r, "<=", "<=") ||
	    !reader_number(r, "a threshold", -(1ll << 62), 1ll << 62, &n->value) ||
	    !reader_line_ends(r))
		return 0;
	if (depth == MAX_DEPTH)
		return reader_wrong(r, name, "a tree may be at most %d deep", MAX_DEPTH);
	if (!read_node(r, depth + 1, ids))
		return 0;
	n->above = r->out->num_nodes;
	return read_node(r, depth + 1, ids);
}

static int is_word(const struct reader *r, const char *word)
{
	const size_t length = word ? strlen(word) : 0;
	return word && strcspn(r->at, " ") == length && !strncmp(r->at, word, length);
}

static int read_node(struct reader *r, int depth, const struct ids *ids)
{
	reader_next_line(r);
	const char *found = reader_word(r);
	if (!strcmp(found, "if"))
		return read_if(r, depth, ids);
	if (strcmp(found, "return"))
		return reader_wrong(
		    r, found,
		    "\"if FEATURE <= NUMBER\" or \"return ID\" is expected: two subtrees "
		    "follow each if");
	struct selector_node *n = &r->out->nodes[r->out->num_nodes++];
	n->feature = -1;
	for (int i = 0; i < MOST_WORDS; i++) {
		if (!is_word(r, ids->words[i].word))
			continue;
		reader_word(r);
		n->value = ids->words[i].says;
		return reader_line_ends(r);
	}
	const int most =
	    ids->most == LAST_CHOICE ? r->out->selector.num_choices - 1 : ids->most;
	return reader_number(r, "an id", ids->least, most, &n->value) && reader_line_ends(r);
}

/* The reader is at the tree's first line. */
static int read_tree(struct reader *r, enum decision decision)
{
	struct selector *s = &r->out->selector;
	char line[32];
	snprintf(line, sizeof line, "tree %s", decision_names[decision]);
	s->root[decision] = r->out->num_nodes;
	return reader_expect(r, "tree", line) && reader_expect(r, decision_names[decision], line) &&
	       reader_line_ends(r) && read_node(r, 0, &all_ids[decision]);
}

/* The reader is at the tree's first line, or the tree is left out: one leaf -1. */
static int read_optional(struct reader *r, enum decision decision)
{
	struct selector *s = &r->out->selector;
	const char *name = decision_names[decision];
	if (!strncmp(r->at, "tree ", 5) && !strcmp(r->at + 5, name))
		return read_tree(r, decision) && (reader_next_line(r) || 1);
	s->root[decision] = r->out->num_nodes;
	r->out->nodes[r->out->num_nodes++] = (struct selector_node){ .feature = -1, .value = -1 };
	return 1;
}

static int read_overlap(struct reader *r)
{
	struct selector *s = &r->out->selector;
	if (!read_optional(r, DECIDE_OVERLAP))
		return 0;
	for (int i = s->root[DECIDE_OVERLAP]; i < r->out->num_nodes; i++)
		s->overlaps |=
		    r->out->nodes[i].feature < 0 && r->out->nodes[i].value != SAYS_SERIAL;
	return 1;
}

/* All lines that begin with the word and a blank. */
static int read_lines(struct reader *r, const char *word, int (*read)(struct reader *))
{
	for (; !strncmp(r->at, word, strlen(word)); reader_next_line(r)) {
		reader_word(r);
		if (!read(r))
			return 0;
	}
	return 1;
}

static int read_all(struct reader *r)
{
	if (!read_version(r) || !read_gpu(r) || !read_rules(r))
		return 0;
	reader_next_line(r);
	if (!read_lines(r, "kernel ", read_kernel) || !read_lines(r, "choice ", read_choice) ||
	    !read_lines(r, "segments ", read_costs) || !all_have_costs(r))
		return 0;
	for (int d = 0; d < DECIDE_OVERLAP; d++, reader_next_line(r))
		if (!read_tree(r, (enum decision)d))
			return 0;
	if (!read_overlap(r) || !read_optional(r, DECIDE_EARLY))
		return 0;
	return !*r->at ||
	       reader_wrong(r, r->at,
			    "\"tree overlap\", then \"tree early\", may follow, and nothing else");
}

/* ---- the file ----------------------------------------------------------------------- */

static int count_lines(const char *text, size_t size)
{
	int n = 1;
	for (size_t i = 0; i < size; i++)
		n += text[i] == '\n';
	return n;
}

static enum attune_status parse(struct override *o, const char *path, size_t size,
				const struct device_info *d)
{
	const int lines = count_lines(o->text, size);
	const char *nul = memchr(o->text, '\0', size);
	struct reader r = { path, d, o, o->text, o->text + size, o->text, 0 };
	if (nul)
		return fail(ATTUNE_INVALID, "%s:%d: a NUL byte; plain text is expected", path,
			    count_lines(o->text, (size_t)(nul - o->text)));
	o->kernels = calloc(MAX_KERNELS, sizeof *o->kernels);
	o->choices = calloc(MAX_CHOICES, sizeof *o->choices);
	o->costs = calloc(MAX_COSTS, sizeof *o->costs);
	o->nodes = calloc((size_t)lines + 1, sizeof *o->nodes); /* at most one node a line */
	if (!o->kernels || !o->choices || !o->costs || !o->nodes)
		return fail(ATTUNE_NO_MEMORY, "attune_open: out of memory");
	o->selector.kernels = o->kernels;
	o->selector.choices = o->choices;
	o->selector.costs = o->costs;
	o->selector.nodes = o->nodes;
	const int all = read_all(&r);
	o->selector.num_nodes = o->num_nodes;
	return all ? ATTUNE_OK : ATTUNE_INVALID;
}

enum attune_status override_open(struct override **out, const char *path,
				 const struct device_info *d)
{
	struct override *o = calloc(1, sizeof *o);
	size_t size = 0;
	enum attune_status status;
	*out = NULL;
	if (!o)
		return fail(ATTUNE_NO_MEMORY, "attune_open: out of memory");
	status = override_text(path, &o->text, &size);
	if (!status)
		status = parse(o, path, size, d);
	if (status) {
		override_close(o);
		return status;
	}
	*out = o;
	return ATTUNE_OK;
}

const struct selector *override_selector(const struct override *o)
{
	return &o->selector;
}

void override_close(struct override *o)
{
	if (!o)
		return;
	free(o->kernels);
	free(o->choices);
	free(o->costs);
	free(o->nodes);
	free(o->text);
	free(o);
}
