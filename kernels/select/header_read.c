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
	for (*says = 0; *says < h->num_choices; ++*says)
		if (!strcmp(h->choice[*says].name, word))
			return decision != DECIDE_EARLY;
	return 0;
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
	return header_expect(r, "#include \"attune_features.h\"");
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

/* The enum of the ids: made of CHOICES, so that nothing in it can differ. */
static int read_enum(struct header *h, struct header_text *r)
{
	char line[5][3 * GPU_NAME + 80];
	const char *gpu = h->gpu, *upper = h->upper;
	snprintf(line[0], sizeof line[0], "SAYS(id, name, kernel, tunables) %s_##name = id,", gpu);
	snprintf(line[1], sizeof line[1], "enum attune_%s_says {", gpu);
	snprintf(line[2], sizeof line[2], "ATTUNE_%s_CHOICES(ATTUNE_%s_SAYS)", upper, upper);
	snprintf(line[3], sizeof line[3], "%s_defaults = %d, %s_serial = %d,", gpu, SAYS_DEFAULTS,
		 gpu, SAYS_SERIAL);
	snprintf(line[4], sizeof line[4], "%s_one_launch = %d, %s_streams = %d", gpu,
		 SAYS_ONE_LAUNCH, gpu, SAYS_STREAMS);
	return read_define(h, r, line[0]) && header_expect(r, line[1]) &&
	       header_expect(r, line[2]) && header_expect(r, line[3]) &&
	       header_expect(r, line[4]) && header_expect(r, "};");
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
				  decision == DECIDE_OVERLAP ? ", serial, one_launch or streams"
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
	       read_rows(h, r, "SEGMENTS", "SEGMENTS", read_costs) && read_trees(h, r) &&
	       header_expect(r, "#endif") &&
	       (header_next_is(r, "") && !*r->at ? 1 : header_wrong(r, "the end is"));
}

void header_free(struct header *h)
{
	for (int d = 0; d < NUM_DECISIONS; d++)
		free(h->tree[d].v);
}
