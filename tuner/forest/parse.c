/* parse.c - reads a generated header back into a forest, so that evaluation and comparison use the
 * text that is shipped. Keep it in step with emit.c. */
#include "forest.h"
#include "harness/base/base.h"
#include "kernels/spec/plugin.h"
#include "tuner/base/base.h"
#include "tuner/tree/tree.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
	const char *start, *at, *path;
	int failed; /* already complained */
	char name[MAX_IDS][CHOICE_NAME];
	char plugin_name[MAX_PLUGIN_ROWS][CHOICE_NAME];
};

static int line_of(const struct reader *r)
{
	int line = 1;
	for (const char *p = r->start; p < r->at; p++)
		line += *p == '\n';
	return line;
}

static int wrong(struct reader *r, const char *wanted)
{
	if (!r->failed)
		complain("%s:%d: %s expected; `make heuristics` rewrites the file", r->path,
			 line_of(r), wanted);
	r->failed = 1;
	return 0;
}

static void skip_blank(struct reader *r)
{
	while (isspace((unsigned char)*r->at) || *r->at == '\\')
		r->at++;
}

/* Steps over `word` if it comes next. */
static int next_is(struct reader *r, const char *word)
{
	const size_t n = strlen(word);
	skip_blank(r);
	if (strncmp(r->at, word, n))
		return 0;
	r->at += n;
	return 1;
}

static int expect(struct reader *r, const char *word)
{
	char quoted[80];
	if (next_is(r, word))
		return 1;
	snprintf(quoted, sizeof quoted, "'%s'", word);
	return wrong(r, quoted);
}

static int read_number(struct reader *r, long long *value)
{
	char *end;
	skip_blank(r);
	*value = strtoll(r->at, &end, 10);
	if (end == r->at)
		return wrong(r, "a number");
	r->at = end;
	return 1;
}

/* Up to the first of `stops`. */
static int read_word(struct reader *r, const char *stops, char *word, size_t size)
{
	skip_blank(r);
	const size_t n = strcspn(r->at, stops);
	if (!n || n >= size)
		return wrong(r, "a name");
	memcpy(word, r->at, n);
	word[n] = '\0';
	r->at += n;
	return 1;
}

/* Moves past the next occurrence of `text`. */
static int seek(struct reader *r, const char *text)
{
	const char *found = strstr(r->at, text);
	if (!found)
		return wrong(r, text);
	r->at = found + strlen(text);
	return 1;
}

/* CHOICE(id, name, kernel, "tunables") */
static int read_choice(struct reader *r, struct forest *f)
{
	char kernel[CHOICE_NAME], text[MAX_CHOICE_TEXT];
	const char *where;
	long long id;
	struct choice *c = &f->choice[f->num_choices];
	if (f->num_choices == MAX_IDS)
		return wrong(r, "an end of CHOICES");
	if (!read_number(r, &id) || id != f->num_choices)
		return wrong(r, "the next id");
	if (!expect(r, ",") || !read_word(r, ", \t", r->name[id], sizeof r->name[id]) ||
	    !expect(r, ",") || !read_word(r, ", \t", kernel, sizeof kernel) || !expect(r, ",") ||
	    !expect(r, "\"") || !read_word(r, "\"", text, sizeof text) || !expect(r, "\"") ||
	    !expect(r, ")"))
		return 0;
	c->kernel = kernel_find(strcmp(f->gpu, "cpu") ? BACKEND_GPU : BACKEND_CPU, kernel);
	if (!c->kernel || !config_parse(&c->config, c->kernel->space, text, &where))
		return wrong(r, "a choice that today's .def tables list");
	f->num_choices++;
	return 1;
}

/* An action given as a number, or as a name that follows the GPU's: "h200_streams", or a choice. 0:
 * neither. */
static int action_named(const struct reader *r, const struct forest *f, enum decision decision,
			const char *word, int *action)
{
	const size_t n = strlen(f->gpu);
	char *end;
	*action = (int)strtol(word, &end, 10);
	if (end != word && !*end)
		return 1;
	if (strncmp(word, f->gpu, n) || word[n] != '_')
		return 0;
	for (int says = SAYS_DEFAULTS; says >= SAYS_STREAMS; says--)
		if (says_word(decision, says) && !strcmp(says_word(decision, says), word + n + 1)) {
			*action = says;
			return 1;
		}
	const int is_plugin = decision >= NUM_DECISIONS;
	const int ids = is_plugin ? f->num_plugins : f->num_choices;
	for (*action = 0; *action < ids; ++*action)
		if (!strcmp(is_plugin ? r->plugin_name[*action] : r->name[*action], word + n + 1))
			return 1;
	return 0;
}

/* SEGMENTS(choice, head size, slots, start, path, split, segments, merge) */
static int read_costs(struct reader *r, struct forest *f)
{
	static const struct {
		long long least, most;
	} bound[] = { { 1, 1 << 16 },      { 1, MOST_SLOTS },  { 0, MOST_START },
		      { 0, MOST_OF_MANY }, { 0, MOST_OF_FEW }, { 0, MOST_OF_FEW },
		      { 0, MOST_OF_MANY } };
	char name[GPU_NAME + CHOICE_NAME];
	long long v[COUNT(bound)];
	int id;
	if (f->num_costs == MAX_COSTS)
		return wrong(r, "an end of SEGMENTS");
	if (!read_word(r, ", \t", name, sizeof name))
		return 0;
	if (!action_named(r, f, DECIDE_DECODE, name, &id) || id < 0 || id >= f->num_choices)
		return wrong(r, "an id that CHOICES has");
	for (size_t i = 0; i < COUNT(v); i++) {
		if (!expect(r, ",") || !read_number(r, &v[i]))
			return 0;
		if (v[i] < bound[i].least || v[i] > bound[i].most)
			return wrong(r, "another number");
	}
	f->costs[f->num_costs++] = (struct selector_costs){
		id, (int)v[0], { (int)v[1], (int)v[2], v[3], v[4], v[5], v[6] }
	};
	return expect(r, ")");
}

static int feature_of(const char *name)
{
	for (int i = 0; i < ATTUNE_NUM_FEATURES; i++)
		if (!strcmp(feature_names[i], name))
			return i;
	return -1;
}

/* Reads "12 scenarios, 1.004, p95 1.020; next h200_ring_8x16, 1.031; few; guarded" into a node of
 * weight 1. */
static void read_figures(struct reader *r, const struct forest *f, enum decision decision,
			 struct node *v)
{
	char rival[GPU_NAME + CHOICE_NAME];
	double mean, next, p95;
	int n = 0;
	v->runner_up = SAYS_DEFAULTS;
	if (sscanf(r->at, " /* %d scenario%n", &v->support, &n) != 1 || !n)
		return;
	v->weight = 1;
	const char *text = r->at + n;
	const char *end = strstr(text, "*/"), *semicolon = strchr(text, ';');
	text += *text == 's';
	int here = 0;
	sscanf(text, " (%*d here)%n", &here);
	text += here;
	const int figures = sscanf(text, ", %lf, p95 %lf", &mean, &p95);
	if (figures >= 1)
		v->cost = llround(1e6 * log(mean));
	if (figures == 2)
		v->p95 = (int32_t)lround(1e6 * log(p95));
	if (end && semicolon && semicolon < end &&
	    sscanf(semicolon, "; next %159[^,], %lf", rival, &next) == 2 &&
	    action_named(r, f, decision, rival, &v->runner_up))
		v->runner_up_cost = llround(1e6 * log(next));
	for (int i = 1; end && i < NUM_REMARKS; i++) {
		const char *found = strstr(text, remark_words[i]);
		if (found && found < end)
			v->remark = (enum remark)i;
	}
	const char *guarded = strstr(text, "; guarded");
	if (guarded && guarded < end)
		v->guarded = "a rule of its kernel";
	if (end)
		r->at = end + 2;
}

static void skip_comment(struct reader *r)
{
	const char *end;
	skip_blank(r);
	if (!strncmp(r->at, "/*", 2) && (end = strstr(r->at, "*/")) != NULL)
		r->at = end + 2;
}

/* The actions of a leaf: -1, ids, or `also`. */
struct actions {
	int ids, also;
};

static int may_say(const struct actions *a, long long value)
{
	return value == a->also || (value >= SAYS_DEFAULTS && value < a->ids);
}

/* Reads a return, or an if with both branches; older headers have an else between these. Returns
 * the node, or -1. */
static int read_node(struct reader *r, struct forest *f, enum decision decision,
		     const struct actions *actions)
{
	struct tree *t = &f->tree[decision];
	char name[GPU_NAME + CHOICE_NAME];
	long long value;
	const int at = tree_new_node(t);
	if (at < 0)
		return -1;
	if (next_is(r, "return")) {
		int action;
		if (!read_word(r, ";", name, sizeof name))
			return -1;
		if (!action_named(r, f, decision, name, &action) || !may_say(actions, action)) {
			wrong(r, "an id that CHOICES has");
			return -1;
		}
		if (!expect(r, ";"))
			return -1;
		t->v[at].action = action;
		read_figures(r, f, decision, &t->v[at]);
		skip_comment(r);
		return at;
	}
	if (!expect(r, "if (f->") || !read_word(r, " <", name, sizeof name) || !expect(r, "<=") ||
	    !read_number(r, &value) || !expect(r, ")"))
		return -1;
	if (feature_of(name) < 0) {
		wrong(r, "a feature of features.def");
		return -1;
	}
	const int block = next_is(r, "{");
	const int below = read_node(r, f, decision, actions);
	if (below < 0 || (block && !expect(r, "}")))
		return -1;
	const int braced = next_is(r, "else") && next_is(r, "{");
	const int above = read_node(r, f, decision, actions);
	if (above < 0 || (braced && !expect(r, "}")))
		return -1;
	t->v[at].feature = feature_of(name);
	t->v[at].threshold = value;
	t->v[at].below = below;
	t->v[at].above = above;
	return at;
}

static int read_tree(struct reader *r, struct forest *f, enum decision decision)
{
	char head[GPU_NAME + 80];
	snprintf(head, sizeof head, "ATTUNE_SELECT int attune_%s_%s(", f->gpu,
		 decision_names[decision]);
	if (decision == DECIDE_EARLY && !strstr(r->at, head))
		return tree_constant(&f->tree[decision], SAYS_OWN);
	if (!seek(r, head) || !seek(r, "{"))
		return 0;
	next_is(r, "(void)f;");
	const struct actions actions[ALL_DECISIONS] = {
		[DECIDE_PREFILL] = { f->num_choices, SAYS_DEFAULTS },
		[DECIDE_DECODE] = { f->num_choices, SAYS_DEFAULTS },
		[DECIDE_OVERLAP] = { f->num_choices, SAYS_STREAMS },
		[DECIDE_EARLY] = { MOST_EARLY + 1, SAYS_OWN },
		[DECIDE_PREFILL_PLUGIN] = { f->num_plugins, SAYS_OURS },
		[DECIDE_DECODE_PLUGIN] = { f->num_plugins, SAYS_OURS },
		[DECIDE_MIXED_PLUGIN] = { f->num_plugins, SAYS_PARTS },
	};
	return read_node(r, f, decision, &actions[decision]) == 0 && expect(r, "}");
}

/* ---- plug-ins -------------------------------------------------------------------------- */
/* PLUGIN(id, name, plug-in, "version", "tunables"); of one that is not loaded in this version only
 * the name is kept. */
static int read_plugin(struct reader *r, struct forest *f)
{
	char kernel[CHOICE_NAME], version[MOST_VERSION + 1], loaded[MOST_VERSION + 1] = "";
	char text[MAX_CHOICE_TEXT] = "";
	const char *where;
	long long id;
	struct choice *c = &f->plugin[f->num_plugins];
	if (f->num_plugins == MAX_PLUGIN_ROWS)
		return wrong(r, "an end of PLUGINS");
	if (!read_number(r, &id) || id != f->num_plugins)
		return wrong(r, "the next id");
	if (!expect(r, ",") ||
	    !read_word(r, ", \t", r->plugin_name[id], sizeof r->plugin_name[id]) ||
	    !expect(r, ",") || !read_word(r, ", \t", kernel, sizeof kernel) || !expect(r, ",") ||
	    !expect(r, "\"") || !read_word(r, "\"", version, sizeof version) ||
	    !expect(r, "\",") || !expect(r, "\"") ||
	    (*r->at != '"' && !read_word(r, "\"", text, sizeof text)) || !expect(r, "\"") ||
	    !expect(r, ")"))
		return 0;
	c->kernel = kernel_find(strcmp(f->gpu, "cpu") ? BACKEND_GPU : BACKEND_CPU, kernel);
	if (c->kernel && c->kernel->plugin)
		plugin_version(loaded, c->kernel->plugin->version);
	if (strcmp(loaded, version))
		snprintf(f->left_out, sizeof f->left_out, "%.31s", kernel);
	else if (!config_parse(&c->config, c->kernel->space, text, &where))
		return wrong(r, "tunables that the plug-in has");
	f->num_plugins++;
	return 1;
}

/* The rows of plug-ins and their trees, if the header has any. */
static int read_plugins(struct reader *r, struct forest *f)
{
	int done = 1;
	if (!strstr(r->at, "_PLUGINS(PLUGIN)"))
		return 1;
	done = seek(r, "_PLUGINS(PLUGIN)");
	while (done && next_is(r, "PLUGIN("))
		done = read_plugin(r, f);
	if (done && *f->left_out)
		f->num_plugins = 0;
	for (int t = NUM_DECISIONS; done && t < ALL_DECISIONS && f->num_plugins; t++)
		done = read_tree(r, f, (enum decision)t);
	return done;
}

/* Headers without this have an older form. */
static const char segments_head[] = "_SEGMENTS(SEGMENTS)";

int header_is_older(const char *text)
{
	return strstr(text, "_CHOICES(CHOICE)") && !strstr(text, segments_head);
}

int forest_parse(struct forest *f, const char *text, const char *path)
{
	struct reader r = { .start = text, .at = text, .path = path };
	int done;
	*f = (struct forest){ 0 };
	if (header_is_older(text)) {
		complain(
		    "%s: these rules have the form of an older attune; make tune rewrites them, "
		    "make heuristics those of a committed database",
		    path);
		return 0;
	}
	done = seek(&r, "_GPU \"") && read_word(&r, "\"", f->gpu, sizeof f->gpu) &&
	       seek(&r, "_CHOICES(CHOICE)");
	while (done && next_is(&r, "CHOICE("))
		done = read_choice(&r, f);
	done = done && seek(&r, segments_head);
	while (done && next_is(&r, "SEGMENTS("))
		done = read_costs(&r, f);
	done = done && expect(&r, "#define"); /* no row was skipped */
	for (int t = 0; done && t < NUM_DECISIONS; t++)
		done = read_tree(&r, f, (enum decision)t);
	done = done && read_plugins(&r, f);
	if (!done)
		forest_free(f);
	return done;
}

int forest_load(struct forest *f, const char *path)
{
	char *text = file_text(path);
	int done;
	if (!text) {
		complain("%s: cannot be read; `make heuristics` writes it from the database", path);
		return 0;
	}
	done = forest_parse(f, text, path);
	if (done && *f->left_out)
		complain("%s: its leaves of plug-in %s are left out; --plugin FILE loads the "
			 "version that they name",
			 path, f->left_out);
	free(text);
	return done;
}
