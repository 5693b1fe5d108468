/* parse.c - reads a generated header back into a forest, so that evaluation and comparison use the
 * text that is shipped. Keep it in step with emit.c. */
#include "forest.h"
#include "harness/base/base.h"
#include "harness/base/text_rule.h"
#include "kernels/device/shared/gpu_names.h"
#include "kernels/select/header_text.h"
#include "tuner/base/base.h"
#include "tuner/tree/tree.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The reader of the text, and the choices that it has named. */
struct reader {
	struct header_text text;
	char name[MAX_IDS][CHOICE_NAME];
};

static int wrong(struct reader *r, const char *wanted)
{
	return header_wrong(&r->text, wanted);
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
	if (!header_number(&r->text, &id) || id != f->num_choices)
		return wrong(r, "the next id");
	if (!header_expect(&r->text, ",") ||
	    !header_word(&r->text, ", \t", r->name[id], sizeof r->name[id]) ||
	    !header_expect(&r->text, ",") ||
	    !header_word(&r->text, ", \t", kernel, sizeof kernel) ||
	    !header_expect(&r->text, ",") || !header_expect(&r->text, "\"") ||
	    !header_word(&r->text, "\"", text, sizeof text) || !header_expect(&r->text, "\"") ||
	    !header_expect(&r->text, ")"))
		return 0;
	c->kernel = kernel_find(strcmp(f->gpu, "cpu") ? BACKEND_GPU : BACKEND_CPU, kernel);
	if (!c->kernel || !config_parse(&c->config, c->kernel->space, text, &where))
		return wrong(r, "a choice that today's .def tables list");
	f->num_choices++;
	return 1;
}

/* An action given as a number, or by its name: "h200_streams", "h200_ring_8x16", also without the
 * GPU's name. 0: neither. */
static int action_named(const struct reader *r, const struct forest *f, enum decision decision,
			const char *word, int *action)
{
	const size_t n = strlen(f->gpu);
	char *end;
	*action = (int)strtol(word, &end, 10);
	if (end != word && !*end)
		return 1;
	if (!strncmp(word, f->gpu, n) && word[n] == '_')
		word += n + 1;
	for (int says = SAYS_DEFAULTS; says >= SAYS_STREAMS; says--)
		if (says_word(decision, says) && !strcmp(says_word(decision, says), word)) {
			*action = says;
			return 1;
		}
	for (*action = 0; *action < f->num_choices; ++*action)
		if (!strcmp(r->name[*action], word))
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
	if (!header_word(&r->text, ", \t", name, sizeof name))
		return 0;
	if (!action_named(r, f, DECIDE_DECODE, name, &id) || id < 0 || id >= f->num_choices)
		return wrong(r, "an id that CHOICES has");
	for (size_t i = 0; i < COUNT(v); i++) {
		if (!header_expect(&r->text, ",") || !header_number(&r->text, &v[i]))
			return 0;
		if (v[i] < bound[i].least || v[i] > bound[i].most)
			return wrong(r, "another number");
	}
	f->costs[f->num_costs++] = (struct selector_costs){
		id, (int)v[0], { (int)v[1], (int)v[2], v[3], v[4], v[5], v[6] }
	};
	return header_expect(&r->text, ")");
}

/* Reads "12 scenarios, 1.004, p95 1.020; next ring_8x16, 1.031; few; guarded" into a node of
 * weight 1. */
static void read_figures(const struct reader *r, const struct forest *f, enum decision decision,
			 const char *comment, struct node *v)
{
	char text[400], rival[GPU_NAME + CHOICE_NAME];
	double mean, next, p95;
	int n = 0, here = 0;
	v->runner_up = SAYS_DEFAULTS;
	snprintf(text, sizeof text, "%.*s", comment ? (int)(strstr(comment, "*/") - comment) : 0,
		 comment ? comment : "");
	if (sscanf(text, " %d scenario%n", &v->support, &n) != 1 || !n)
		return;
	v->weight = 1;
	const char *at = text + n, *semicolon = strchr(at, ';');
	at += *at == 's';
	sscanf(at, " (%*d here)%n", &here);
	at += here;
	const int figures = sscanf(at, ", %lf, p95 %lf", &mean, &p95);
	if (figures >= 1)
		v->cost = llround(1e6 * log(mean));
	if (figures == 2)
		v->p95 = (int32_t)lround(1e6 * log(p95));
	if (semicolon && sscanf(semicolon, "; next %159[^,], %lf", rival, &next) == 2 &&
	    action_named(r, f, decision, rival, &v->runner_up))
		v->runner_up_cost = llround(1e6 * log(next));
	for (int i = 1; i < NUM_REMARKS; i++)
		if (strstr(at, remark_words[i]))
			v->remark = (enum remark)i;
	if (strstr(at, "; guarded"))
		v->guarded = "a rule of its kernel";
}

/* Whether a leaf may have the action: an id, -1, or one that has a name. */
static int may_say(enum decision decision, int ids, int action)
{
	return action >= SAYS_DEFAULTS ? action < ids
				       : action >= SAYS_STREAMS && says_word(decision, action);
}

/* Copies a node and what is below it; returns its index, or -1. */
static int take_node(struct reader *r, struct forest *f, enum decision decision, int ids,
		     const struct header_tree *text, int node)
{
	struct tree *t = &f->tree[decision];
	const struct header_node *v = &text->v[node];
	const int at = tree_new_node(t);
	if (at < 0)
		return -1;
	if (v->below < 0) {
		int action;
		r->text.at = v->at;
		if (!action_named(r, f, decision, v->word, &action) ||
		    !may_say(decision, ids, action)) {
			wrong(r, "an id that CHOICES has");
			return -1;
		}
		t->v[at].action = action;
		read_figures(r, f, decision, v->comment, &t->v[at]);
		return at;
	}
	if (feature_named(v->word) < 0) {
		r->text.at = v->at;
		wrong(r, "a feature of features.def");
		return -1;
	}
	const int below = take_node(r, f, decision, ids, text, v->below);
	const int above = below < 0 ? -1 : take_node(r, f, decision, ids, text, v->above);
	t->v[at].feature = feature_named(v->word);
	t->v[at].threshold = v->threshold;
	t->v[at].below = below;
	t->v[at].above = above;
	return above < 0 ? -1 : at;
}

static int read_tree(struct reader *r, struct forest *f, enum decision decision)
{
	const int ids = decision == DECIDE_EARLY ? MOST_EARLY + 1 : f->num_choices;
	struct header_tree text;
	if (!header_tree(&r->text, f->gpu, decision, &text))
		return 0;
	const char *end = r->text.at;
	int done = 0;
	if (text.n)
		done = take_node(r, f, decision, ids, &text, 0) == 0;
	else if (decision == DECIDE_EARLY)
		done = tree_constant(&f->tree[decision], SAYS_OWN);
	else
		wrong(r, "a function for each decision");
	if (done)
		r->text.at = end;
	free(text.v);
	return done;
}

/* Headers without this have a form that is no longer read. */
static const char segments_head[] = "_SEGMENTS(SEGMENTS)";

static int is_too_old(const char *text)
{
	return strstr(text, "_CHOICES(CHOICE)") && !strstr(text, segments_head);
}

int header_is_older(const char *text)
{
	return strstr(text, "_CHOICES(CHOICE)") && !strstr(text, "_SHAPES(SHAPES)");
}

/* No row was skipped. Older headers have binaries behind the costs. */
static int rows_end(struct header_text *r)
{
	if (header_next_is(r, "#define"))
		return 1;
	struct header_text ahead = *r;
	return header_expect(&ahead, "ATTUNE_SELECT") || header_wrong(r, "'ATTUNE_SELECT'");
}

static int is_of_text(const char *text, const char *path)
{
	const size_t n = strlen(text), at = text_fault(TEXT_LINES, text, n);
	const struct header_text r = { .start = text, .at = text + at };
	if (at < n)
		complain("%s:%d: a header is of %s", path, header_line(&r),
			 text_rule_says(TEXT_LINES));
	return at == n;
}

static int read_gpu(struct reader *r, struct forest *f)
{
	return header_seek(&r->text, "_GPU \"") &&
	       header_word(&r->text, "\"", f->gpu, sizeof f->gpu) &&
	       (gpu_name_is_valid(f->gpu) || wrong(r, "a GPU's name, " GPU_NAME_RULE ","));
}

int forest_parse(struct forest *f, const char *text, const char *path)
{
	struct reader r = { .text = { .start = text, .at = text } };
	int done;
	*f = (struct forest){ 0 };
	if (!is_of_text(text, path))
		return 0;
	if (is_too_old(text)) {
		complain(
		    "%s: these rules have the form of an older attune; make tune rewrites them, "
		    "make heuristics those of a committed database",
		    path);
		return 0;
	}
	done = read_gpu(&r, f) && header_seek(&r.text, "_CHOICES(CHOICE)");
	while (done && header_next_is(&r.text, "CHOICE("))
		done = read_choice(&r, f);
	done = done && header_seek(&r.text, segments_head);
	while (done && header_next_is(&r.text, "SEGMENTS("))
		done = read_costs(&r, f);
	done = done && rows_end(&r.text);
	for (int t = 0; done && t < NUM_DECISIONS; t++)
		done = read_tree(&r, f, (enum decision)t);
	if (!done && *r.text.wanted)
		complain("%s:%d: %s expected; `make heuristics` rewrites the file", path,
			 header_line(&r.text), r.text.wanted);
	if (!done)
		forest_free(f);
	return done;
}

int forest_load(struct forest *f, const char *path)
{
	errno = 0;
	char *text = file_text(path);
	int done = text && forest_parse(f, text, path);
	if (!done && errno == ENOMEM) /* some commands go on without rules */
		output_lost();
	if (!text) {
		complain("%s: cannot be read; `make heuristics` writes it from the database", path);
		return 0;
	}
	free(text);
	return done;
}
