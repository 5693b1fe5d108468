/* SPDX-License-Identifier: Apache-2.0 */
/* header_read.c - reads a whole generated header, from its guard to the #endif, by the functions of
 * header_text.c. It checks names, order and ranges. Whether this library has the kernels and
 * choices is for the caller to check. */
#include "header_text.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- answers of leaves ------------------------------------------------------------------ */
const char *header_answer(enum decision decision, int says)
{
	static const char *const words[NUM_DECISIONS][1 - SAYS_SPARING112] = {
		[DECIDE_PREFILL] = { [-SAYS_DEFAULTS] = "defaults" },
		[DECIDE_DECODE] = { [-SAYS_DEFAULTS] = "defaults" },
		[DECIDE_OVERLAP] = { [-SAYS_SERIAL] = "serial",
				     [-SAYS_ONE_LAUNCH] = "one_launch",
				     [-SAYS_STREAMS] = "streams",
				     [-SAYS_SPARING16] = "streams_sparing16",
				     "streams_sparing32",
				     "streams_sparing48",
				     "streams_sparing64",
				     "streams_sparing80",
				     "streams_sparing96",
				     "streams_sparing112" },
	};
	return says < 0 && says >= SAYS_SPARING112 && decision < NUM_DECISIONS
		   ? words[decision][-says]
		   : NULL;
}

/* Whether a leaf may have the answer. */
static int may_say(const struct header *h, enum decision decision, int says)
{
	if (decision == DECIDE_EARLY)
		return says >= SAYS_OWN && says <= MOST_EARLY;
	return says >= 0 ? says < h->num_choices : header_answer(decision, says) != NULL;
}

static int choice_named(const struct header *h, const char *word)
{
	int id = 0;
	while (id < h->num_choices && strcmp(h->choice[id].name, word))
		id++;
	return id < h->num_choices ? id : -1;
}

int header_says(const struct header *h, enum decision decision, const char *word, int *says)
{
	const size_t n = strlen(h->gpu);
	char *end;
	const long number = strtol(word, &end, 10);
	if (end != word && !*end && number >= SAYS_SPARING112 && number <= HEADER_CHOICES)
		return may_say(h, decision, *says = (int)number);
	if (!strncmp(word, h->gpu, n) && word[n] == '_')
		word += n + 1;
	for (*says = SAYS_DEFAULTS; *says >= SAYS_SPARING112; --*says)
		if (header_answer(decision, *says) && !strcmp(header_answer(decision, *says), word))
			return 1;
	*says = choice_named(h, word);
	return *says >= 0 && decision != DECIDE_EARLY;
}

/* ---- rows ------------------------------------------------------------------------------- */
/* "#define ATTUNE_<GPU>_<name>" */
static int read_define(struct header *h, struct header_text *r, const char *name)
{
	char line[5 * GPU_NAME + 100];
	snprintf(line, sizeof line, "#define ATTUNE_%s_%s", h->upper, name);
	return header_expect(r, line);
}

/* "text" in quotes, which may be empty */
static int read_quoted(struct header_text *r, char *text, size_t size)
{
	text[0] = '\0';
	if (!header_expect(r, "\""))
		return 0;
	const size_t n = strcspn(r->at, "\"\n");
	if (n >= size || r->at[n] != '"')
		return header_wrong(r, "a text of at most %zu characters, and a quote, are",
				    size - 1);
	memcpy(text, r->at, n);
	text[n] = '\0';
	r->at += n + 1;
	return 1;
}

/* KERNEL(where, name, 0xHASHull) */
static int read_kernel(struct header *h, struct header_text *r)
{
	struct header_kernel *k = &h->kernel[h->num_kernels];
	char *end;
	if (h->num_kernels == HEADER_KERNELS)
		return header_wrong(r, "at most %d rows KERNEL are", HEADER_KERNELS);
	header_next_is(r, "");
	k->at = r->at;
	if (!header_word(r, ", \t\n", k->where, sizeof k->where) || !header_expect(r, ",") ||
	    !header_word(r, ", \t\n", k->name, sizeof k->name) || !header_expect(r, ",") ||
	    !header_expect(r, "0x"))
		return 0;
	k->hash = strtoull(r->at, &end, 16);
	if (end - r->at != 16 || strncmp(end, "ull", 3))
		return header_wrong(r, "16 digits of a hash and ull are");
	r->at = end + 3;
	h->num_kernels++;
	return header_expect(r, ")");
}

/* SHAPES("sizes", "types"): not kept, since a header that is read as text serves all shapes. */
static int read_shapes(struct header *h, struct header_text *r)
{
	char text[256];
	(void)h;
	return read_quoted(r, text, sizeof text) && header_expect(r, ",") &&
	       read_quoted(r, text, sizeof text) && header_expect(r, ")");
}

/* CHOICE(id, name, kernel, "tunables") */
static int read_choice(struct header *h, struct header_text *r)
{
	struct header_choice *c = &h->choice[h->num_choices];
	long long id;
	if (h->num_choices == HEADER_CHOICES)
		return header_wrong(r, "at most %d rows CHOICE are", HEADER_CHOICES);
	if (!header_number_in(r, "the next id,", h->num_choices, h->num_choices, &id) ||
	    !header_expect(r, ",") || !header_word(r, ", \t\n", c->name, sizeof c->name) ||
	    !header_expect(r, ",") || !header_next_is(r, ""))
		return 0;
	c->at = r->at;
	if (!header_word(r, ", \t\n", c->kernel, sizeof c->kernel) || !header_expect(r, ",") ||
	    !read_quoted(r, c->text, sizeof c->text) || !header_expect(r, ")"))
		return 0;
	h->num_choices++;
	return 1;
}

/* LIST(first, rival, rival, stand_in): names of CHOICES; in place of an absent one, none */
static int read_list(struct header *h, struct header_text *r)
{
	struct attune_list list = { 0 };
	char word[ATTUNE_LIST_MEMBERS][HEADER_NAME];
	header_next_is(r, "");
	const struct header_text before = *r;
	if (!header_list(r, word))
		return 0;
	const struct header_text after = *r;
	*r = before; /* what is wrong with it is said of the row */
	for (int i = 0; i < ATTUNE_LIST_MEMBERS; i++) {
		const int id = choice_named(h, word[i]);
		list.at[i] = (short)id;
		if (id < 0 && (!i || strcmp(word[i], "none")))
			return header_wrong(r, "a name of CHOICES%s, not %s, is",
					    i ? " or none" : "", word[i]);
		if (id >= 0 && list.n < i)
			return header_wrong(r, "none behind none, not %s, is", word[i]);
		for (int k = 0; id >= 0 && k < i; k++)
			if (list.at[k] == id)
				return header_wrong(r, "each choice once, not %s twice, is",
						    word[i]);
		list.n = (short)(list.n + (id >= 0));
	}
	for (int i = 0; i < h->num_lists; i++)
		if (h->list[i].at[0] == list.at[0])
			return header_wrong(r, "one row of %s is", word[0]);
	h->list[h->num_lists] = list; /* at most one for each choice */
	h->list_at[h->num_lists++] = r->at;
	*r = after;
	return 1;
}

/* SEGMENTS(choice, head size, slots, start, path, split, segments, merge) */
static int read_costs(struct header *h, struct header_text *r)
{
	static const struct {
		const char *what;
		long long least, most;
	} bound[] = { { "a head size", 1, 1 << 16 }, { "slots", 1, MOST_SLOTS },
		      { "a start", 0, MOST_START },  { "a path", 0, MOST_OF_MANY },
		      { "a split", 0, MOST_OF_FEW }, { "segments", 0, MOST_OF_FEW },
		      { "a merge", 0, MOST_OF_MANY } };
	char name[GPU_NAME + HEADER_NAME];
	long long v[COUNT(bound)];
	int id;
	if (h->num_costs == HEADER_COSTS)
		return header_wrong(r, "at most %d rows SEGMENTS are", HEADER_COSTS);
	header_next_is(r, "");
	const struct header_text before = *r;
	if (!header_word(r, ", \t\n", name, sizeof name))
		return 0;
	if (!header_says(h, DECIDE_DECODE, name, &id) || id < 0) {
		*r = before;
		return header_wrong(r, "the name of a choice is");
	}
	for (size_t i = 0; i < COUNT(v); i++)
		if (!header_expect(r, ",") ||
		    !header_number_in(r, bound[i].what, bound[i].least, bound[i].most, &v[i]))
			return 0;
	for (int i = 0; i < h->num_costs; i++)
		if (h->costs[i].id == id && h->costs[i].head_size == v[0]) {
			*r = before;
			return header_wrong(r, "one row of a choice for head size %lld is", v[0]);
		}
	h->costs[h->num_costs++] = (struct selector_costs){
		id, (int)v[0], { (int)v[1], (int)v[2], v[3], v[4], v[5], v[6] }
	};
	return header_expect(r, ")");
}

/* "#define ATTUNE_<GPU>_<name>S(<name>)" and its rows "<name>(...)" */
static int read_rows(struct header *h, struct header_text *r, const char *macro, const char *row,
		     int (*read)(struct header *, struct header_text *))
{
	char head[40], begin[16];
	int done;
	snprintf(head, sizeof head, "%s(%s)", macro, row);
	snprintf(begin, sizeof begin, "%s(", row);
	done = read_define(h, r, head);
	while (done && header_next_is(r, begin))
		done = read(h, r);
	return done;
}

/* ---- what stands around them --------------------------------------------------------------- */
/* The guard, which names the GPU first. */
static int read_guard(struct header *h, struct header_text *r)
{
	char word[GPU_NAME + 16], again[GPU_NAME + 40];
	if (!header_expect(r, "#ifndef ATTUNE_") || !header_word(r, " \t\r\n", word, sizeof word))
		return 0;
	const size_t n = strlen(word);
	if (n < 3 || n - 2 >= sizeof h->upper || strcmp(word + n - 2, "_H"))
		return header_wrong(r, "#ifndef ATTUNE_<GPU>_H is");
	snprintf(h->upper, sizeof h->upper, "%.*s", (int)n - 2, word);
	snprintf(again, sizeof again, "#define ATTUNE_%s", word);
	if (!header_expect(r, again))
		return 0;
	h->is_emulated = header_next_is(r, "#ifndef ATTUNE_EMULATED");
	if (h->is_emulated && (!header_seek(r, "\n#endif")))
		return 0;
	if (!header_expect(r, "#include \"attune_features.h\""))
		return 0;
	header_next_is(r, "#include \"attune_list.h\""); /* older headers do not */
	return 1;
}

static int read_names(struct header *h, struct header_text *r)
{
	if (!read_define(h, r, "GPU") || !header_next_is(r, ""))
		return 0;
	h->gpu_at = r->at;
	if (!read_quoted(r, h->gpu, sizeof h->gpu))
		return 0;
	for (size_t i = 0; i <= strlen(h->gpu); i++)
		if (toupper((unsigned char)h->gpu[i]) != h->upper[i] ||
		    isupper((unsigned char)h->gpu[i])) {
			r->at = h->gpu_at;
			return header_wrong(r, "the GPU of ATTUNE_%s_H is", h->upper);
		}
	return read_define(h, r, "ARCH") && read_quoted(r, h->arch, sizeof h->arch);
}

/* ---- code of the GPU's name alone ------------------------------------------------------- */
void header_enum(char text[2][HEADER_CODE], const char *gpu, const char *upper)
{
	snprintf(text[0], HEADER_CODE,
		 "#define ATTUNE_%s_SAYS(id, name, kernel, tunables) %s_##name = id,\n"
		 "enum attune_%s_says {\n"
		 "\tATTUNE_%s_CHOICES(ATTUNE_%s_SAYS)\n"
		 "\t%s_defaults = %d, %s_serial = %d, %s_one_launch = %d, %s_streams = %d",
		 upper, gpu, gpu, upper, upper, gpu, SAYS_DEFAULTS, gpu, SAYS_SERIAL, gpu,
		 SAYS_ONE_LAUNCH, gpu, SAYS_STREAMS);
	int n = snprintf(text[1], HEADER_CODE, ", %s_none = -1", gpu);
	for (int says = SAYS_SPARING16; says >= SAYS_SPARING112; says--)
		n += snprintf(text[1] + n, HEADER_CODE - (size_t)n, ",%s%s_%s = %d",
			      (SAYS_SPARING16 - says) % 4 ? " " : "\n\t", gpu,
			      header_answer(DECIDE_OVERLAP, says), says);
}

void header_list_function(char text[HEADER_CODE], const char *gpu, const char *upper)
{
	snprintf(text, HEADER_CODE,
		 "#define ATTUNE_%s_ROW(a, b, c, d) \\\n"
		 "\tATTUNE_LIST_CASE(%s_##a, %s_##b, %s_##c, %s_##d)\n"
		 "ATTUNE_SELECT struct attune_list attune_%s_list(int first)\n"
		 "{\n"
		 "\tconst struct attune_list alone = { 1, { (short)first, -1, -1, -1 } };\n"
		 "\tswitch (first) {\n"
		 "\tATTUNE_%s_LISTS(ATTUNE_%s_ROW)\n"
		 "\tdefault: return alone;\n"
		 "\t}\n"
		 "}\n",
		 upper, gpu, gpu, gpu, gpu, gpu, upper, upper);
}

/* Steps over code, whose blanks may differ. Changes `code`. */
static int read_code(struct header_text *r, char *code)
{
	char *rest;
	for (char *line = strtok_r(code, "\n\t\\", &rest); line;
	     line = strtok_r(NULL, "\n\t\\", &rest)) {
		size_t n = strlen(line);
		while (n && line[n - 1] == ' ')
			line[--n] = '\0';
		if (!header_expect(r, line))
			return 0;
	}
	return 1;
}

/* The enum of the ids: made of CHOICES, so that nothing in it can differ. */
static int read_enum(struct header *h, struct header_text *r)
{
	char code[2][HEADER_CODE];
	header_enum(code, h->gpu, h->upper);
	return read_code(r, code[0]) &&
	       (header_next_is(r, "};") || (read_code(r, code[1]) && header_expect(r, "};")));
}

/* Older headers have no LISTS: each choice is alone. */
static int read_lists(struct header *h, struct header_text *r)
{
	char code[HEADER_CODE];
	header_next_is(r, "");
	struct header_text ahead = *r;
	if (!read_define(h, &ahead, "LISTS(LIST)"))
		return 1;
	header_list_function(code, h->gpu, h->upper);
	return read_rows(h, r, "LISTS", "LIST", read_list) && read_code(r, code);
}

/* Headers may have no rates: fused kernels then divide a batch by their own. */
static int read_mixed(struct header *h, struct header_text *r)
{
	header_next_is(r, "");
	struct header_text ahead = *r;
	if (!read_define(h, &ahead, "MIXED(MIXED)"))
		return 1;
	*r = ahead;
	return header_mixed(r, &h->mixed);
}

/* Whether a leaf of the tree names the choice. */
static int names(const struct header_tree *t, int id)
{
	for (int i = 0; i < t->n; i++)
		if (t->v[i].below < 0 && t->v[i].says == id)
			return 1;
	return 0;
}

static int check_lists(const struct header *h, struct header_text *r)
{
	for (int i = 0; i < h->num_lists; i++) {
		const int id = h->list[i].at[0];
		if (names(&h->tree[DECIDE_PREFILL], id) || names(&h->tree[DECIDE_DECODE], id))
			continue;
		r->at = h->list_at[i];
		return header_wrong(
		    r, "first a choice that a leaf of the prefill or the decode tree names is");
	}
	return 1;
}

/* ---- trees ------------------------------------------------------------------------------ */
static int resolve(const struct header *h, struct header_text *r, enum decision decision,
		   struct header_node *v)
{
	if (v->below >= 0) {
		if (feature_named(v->word) >= 0)
			return 1;
		r->at = v->at;
		return header_wrong(r, "a feature of features.def is");
	}
	if (header_says(h, decision, v->word, &v->says))
		return 1;
	r->at = v->at;
	return decision == DECIDE_EARLY
		   ? header_wrong(r, "a number of %d to %d is", SAYS_OWN, MOST_EARLY)
		   : header_wrong(r, "a name of CHOICES%s is",
				  decision == DECIDE_OVERLAP
				      ? ", serial, one_launch, streams or streams_sparing16 to 112"
				      : " or defaults");
}

static int read_trees(struct header *h, struct header_text *r)
{
	for (int d = 0; d < NUM_DECISIONS; d++) {
		struct header_tree *t = &h->tree[d];
		if (!header_tree(r, h->gpu, (enum decision)d, t))
			return 0;
		if (!t->n && d != DECIDE_EARLY)
			return header_wrong(r, "ATTUNE_SELECT int attune_%s_%s( is", h->gpu,
					    decision_names[d]);
		for (int i = 0; i < t->n; i++)
			if (!resolve(h, r, (enum decision)d, &t->v[i]))
				return 0;
	}
	return 1;
}

int header_read(struct header *h, struct header_text *r)
{
	memset(h, 0, sizeof *h);
	return read_guard(h, r) && read_names(h, r) &&
	       read_rows(h, r, "KERNELS", "KERNEL", read_kernel) &&
	       read_rows(h, r, "SHAPES", "SHAPES", read_shapes) &&
	       read_rows(h, r, "CHOICES", "CHOICE", read_choice) && read_enum(h, r) &&
	       read_lists(h, r) && read_rows(h, r, "SEGMENTS", "SEGMENTS", read_costs) &&
	       read_mixed(h, r) && read_trees(h, r) && check_lists(h, r) &&
	       header_expect(r, "#endif") &&
	       (header_next_is(r, "") && !*r->at ? 1 : header_wrong(r, "the end is"));
}

void header_free(struct header *h)
{
	for (int d = 0; d < NUM_DECISIONS; d++)
		free(h->tree[d].v);
}
