/* t_override.c - heuristics from a file: the rules of the committed headers mean the
 * same there, and what is wrong with a file is said by line. */
#include "../tuner/tuner.h"
#include "override_head.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

enum { VECTORS = 100000, MUTANTS = 20000, MAX_TEXT = 1 << 19 };

static unsigned long long seed = 42;

static unsigned below(unsigned n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(seed >> 33) % n;
}

/* The file that is read, in memory: noise writes it 20,000 times. */
static int file;
static char path[40];

static int make_file(void **state)
{
	(void)state;
	file = memfd_create("rules", 0);
	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	return file < 0;
}

static int close_file(void **state)
{
	(void)state;
	return close(file);
}

static void put(const char *text, size_t size)
{
	assert_int_equal(ftruncate(file, (off_t)size), 0);
	assert_int_equal(pwrite(file, text, size, 0), size);
}

static struct device_info device_of(const char *gpu)
{
	struct device_info d = { .units = 4, .lanes = 16, .smem_per_block = 232448 };
	d.backend = strcmp(gpu, "cpu") ? BACKEND_GPU : BACKEND_CPU;
	snprintf(d.gpu, sizeof d.gpu, "%s", gpu);
	snprintf(d.name, sizeof d.name, "a test's");
	return d;
}

/* ---- the committed headers, as files -------------------------------------------------- */

static void print_node(FILE *out, const struct tree *t, int node, int depth)
{
	const struct node *n = &t->v[node];
	fprintf(out, "%*s", depth, "");
	if (n->feature < 0) {
		if (n->action == SAYS_CHEAPEST)
			fputs("return cheapest", out);
		else if (n->action == SAYS_STREAMS)
			fputs("return streams", out);
		else
			fprintf(out, "return %d", n->action);
		fprintf(out, " # %d scenarios\n", n->support);
		return;
	}
	fprintf(out, "if %s <= %lld\n", feature_names[n->feature], n->threshold);
	print_node(out, t, n->below, depth + 1);
	print_node(out, t, n->above, depth + 1);
}

static void print_price(FILE *out, const struct selector_price *p)
{
	fprintf(out, "price %s %d %d %d %d %d %d %d", decision_names[p->decision], p->id,
		p->head_size, p->price.rows, p->price.tile, p->price.heads, p->price.slots,
		p->price.start);
	for (int i = 0; i < NUM_PRICE_TERMS; i++)
		fprintf(out, " %lld", p->price.fs[i]);
	fputs("\n", out);
}

static void print_file(FILE *out, const struct forest *f)
{
	fprintf(out, "# rules of a header\n\n%s", override_head(f->gpu));
	for (int i = 0; i < f->num_choices; i++) {
		char text[MAX_CHOICE_TEXT];
		choice_text(text, sizeof text, &f->choice[i]);
		fprintf(out, "choice %d %s\n", i, text);
	}
	for (int i = 0; i < f->num_prices; i++)
		print_price(out, &f->price[i]);
	for (int d = 0; d < NUM_DECISIONS; d++) {
		fprintf(out, "tree %s\n", decision_names[d]);
		print_node(out, &f->tree[d], 0, 1);
	}
}

/* Thresholds lie at any magnitude. */
static void random_features(struct attune_features *f)
{
	long long *v = (long long *)f;
	for (int i = 0; i < ATTUNE_NUM_FEATURES; i++)
		v[i] = below(2u << below(24));
}

static void the_same(const struct selector *a, const struct selector *b)
{
	struct attune_features f;
	for (int i = 0; i < VECTORS; i++) {
		random_features(&f);
		for (int d = 0; d < NUM_DECISIONS; d++)
			assert_int_equal(selector_says(a, (enum decision)d, &f),
					 selector_says(b, (enum decision)d, &f));
	}
}

static void headers_mean_the_same_as_files(void **state)
{
	(void)state;
	for (int i = 0; i < attune_num_selectors; i++) {
		const struct selector *h = &attune_selectors[i];
		const struct device_info d = device_of(h->gpu);
		char header[256];
		struct override *o;
		struct forest f;
		FILE *out = fopen(path, "w");
		own_header(header, h->gpu);
		assert_int_equal(forest_load(&f, header), 1);
		print_file(out, &f);
		fclose(out);
		if (override_open(&o, path, &d))
			fail_msg("%s", attune_last_error());
		const struct selector *s = override_selector(o);
		assert_int_equal(s->num_choices, h->num_choices);
		for (int c = 0; c < h->num_choices; c++) {
			assert_string_equal(s->choices[c].kernel, h->choices[c].kernel);
			assert_string_equal(s->choices[c].text, h->choices[c].text);
		}
		assert_int_equal(s->num_prices, h->num_prices);
		for (int p = 0; p < h->num_prices; p++) {
			const struct selector_price *a = &s->prices[p], *b = &h->prices[p];
			assert_true(a->decision == b->decision && a->id == b->id &&
				    a->head_size == b->head_size);
			assert_memory_equal(&a->price, &b->price, sizeof a->price);
		}
		the_same(s, h);
		override_close(o);
		forest_free(&f);
	}
}

/* ---- what is wrong with a file ---------------------------------------------------------- */

#define SEGMENTED "segmented BLOCK_M=16 TILE_SIZE=64 NUM_WARPS=4 NUM_STAGES=3 SEGMENTS="

/* completed() puts hashes where it says HASH, and where it says PRICES a price for each term: 7, 14,
 * 21, ... */
static const char good[] = "attune heuristics 3\n"
			   "gpu h200\n"
			   "rules 0xHASH # of the features\n"
			   "kernel qblock 0xHASH # of its tunables\n"
			   "kernel segmented 0xHASH\n"
			   "choice 0 qblock BLOCK_M=16 TILE_SIZE=64 NUM_WARPS=4 NUM_STAGES=3\n"
			   "choice 1 " SEGMENTED "balance(1,96,192,16)\n"
			   "price decode 1 128 16 64 4 2 96 PRICES # to decode\n"
			   "tree prefill\n"
			   "return 0\n"
			   "tree decode\n"
			   "if blocks_per_unit <= 16\n"
			   "\tif max_seq <= 256\n"
			   "\t\treturn 0\n"
			   "\t\treturn 1\n"
			   "\treturn cheapest\n"
			   "tree overlap\n"
			   "return -1";

/* A copy of `text` with `from` replaced by `to`; to be freed. */
static char *edited(const char *text, const char *from, const char *to)
{
	const char *at = strstr(text, from);
	char *out = malloc(strlen(text) + strlen(to) + 1);
	assert_non_null(out);
	assert_non_null(at);
	memcpy(out, text, (size_t)(at - text));
	strcpy(out + (at - text), to);
	strcat(out, at + strlen(from));
	return out;
}

static char *completed(const char *text)
{
	const unsigned long long hashes[] = { rules_hash(),
					      kernel_hash(kernel_find(BACKEND_GPU, "qblock")),
					      kernel_hash(kernel_find(BACKEND_GPU, "segmented")) };
	char hash[24], ps[200] = "";
	for (int i = 0; i < NUM_PRICE_TERMS; i++)
		sprintf(ps + strlen(ps), "%s%d", i ? " " : "", 7 + 7 * i);
	char *out = edited(text, "PRICES", ps);
	for (size_t i = 0; i < COUNT(hashes); i++) {
		char *hashed;
		snprintf(hash, sizeof hash, "%016llx", hashes[i]);
		hashed = edited(out, "HASH", hash);
		free(out);
		out = hashed;
	}
	return out;
}

// clang-format off
static const struct broken {
	const char *name, *from, *to;
	int line;
	const char *found, *right;
} broken[] = {
	{ "another version",      "heuristics 3", "heuristics 2",      1, "\"2\"", "\"attune heuristics 3\"" },
	{ "not this format",      "attune", "{\"gpu\":",               1, "{\"gpu\":", "\"attune heuristics 3\"" },
	{ "another GPU",          "gpu h200", "gpu a100",              2, "\"a100\"", "the device in use is \"h200\"" },
	{ "other features",       "rules 0x", "rules 0x1",             3, "0x1", "attune induce --gpu h200" },
	{ "no hash of features",  "rules 0x", "#",                     4, "\"kernel\"", "\"rules 0xHASH\"" },
	{ "other tunables",       "segmented 0x", "segmented 0x1",     5, "0x1", "the tunables of segmented of this library are 0x" },
	{ "no hash of a kernel",  "kernel segmented", "# segmented",   7, "\"segmented\"", "a line \"kernel segmented 0xHASH\" is expected above" },
	{ "a hash of no kernel",  "kernel segmented", "kernel sigmoid", 5, "\"sigmoid\"", "no such kernel" },
	{ "a kernel without a hash", "kernel segmented 0x", "kernel segmented # 0x", 5, "\"\"", "the tunables of segmented" },
	{ "ids out of turn",      "choice 1", "choice 2",              7, "\"2\"", "a number of 1 to 1" },
	{ "an unknown kernel",    " 0 qblock", " 0 qblok",                   6, "qblok", "one of these is expected: naive qblock segmented" },
	{ "a helper",             " 0 qblock", " 0 reduce",                  6, "reduce", "one of these is expected: naive qblock segmented" },
	{ "an unknown axis",      "BLOCK_M=16", "BLOCK_N=16",          6, "BLOCK_N=16", "BLOCK_M= TILE_SIZE= NUM_WARPS= NUM_STAGES=" },
	{ "an unlisted value",    "TILE_SIZE=64", "TILE_SIZE=65",      6, "TILE_SIZE=65", "of: 32 64 128" },
	{ "an unlisted formula",  "(1,96,", "(1,97,",                  7, "balance(1,97,192,16)", "of: balance(0,192,192,16)" },
	{ "a missing axis",       " NUM_STAGES=3", "",                 6, "missing", "NUM_STAGES=" },
	{ "no prefill tree",      "tree prefill\nreturn 0\n", "",      9, "\"decode\"", "\"tree prefill\"" },
	{ "an unknown feature",   "max_seq", "maxseq",                13, "\"maxseq\"", " max_seq " },
	{ "another comparison",   "<= 256", "< 256",                  13, "\"<\"", "\"<=\"" },
	{ "no number",            "<= 256", "<= many",                13, "\"many\"", "a threshold should be a number" },
	{ "half a number",        "<= 256", "<= 256k",                13, "\"256k\"", "a threshold should be a number" },
	{ "a huge number",        "<= 256", "<= 99999999999999999999",13, "\"9999", "a threshold should be a number" },
	{ "more on the line",     "<= 256", "<= 256 and",             13, "\"and\"", "the line should end before it" },
	{ "an id out of range",   "\t\treturn 1", "\t\treturn 2",     15, "\"2\"", "an id should be a number of -1 to 1" },
	{ "a negative id",        "\t\treturn 1", "\t\treturn -2",    15, "\"-2\"", "an id should be a number of -1 to 1" },
	{ "a missing subtree",    "\treturn cheapest\ntree", "tree",         16, "\"tree\"", "two subtrees follow each if" },
	{ "a subtree too many",   "tree overlap", "return 1\ntree overlap", 17, "\"return 1\"", "\"tree overlap\", then" },
	{ "trees out of turn",    "tree decode", "tree overlap",       11, "\"overlap\"", "\"tree decode\"" },
	{ "the end in a tree",    "overlap\nreturn -1", "overlap",     17, "\"\"", "\"return ID\" is expected" },
	{ "a tree of version 2",  "tree overlap\nreturn -1", "tree join\nreturn 1", 17, "\"tree join\"", "\"tree overlap\", then" },
	{ "text behind the trees","overlap\nreturn -1", "overlap\nreturn -1\nend", 19, "\"end\"", "\"tree overlap\", then \"tree early\"" },
	{ "text behind the last", "overlap\nreturn -1", "overlap\nreturn -1\ntree early\nreturn -1\nend", 21, "\"end\"", "and nothing else" },
	{ "text behind the early", "overlap\nreturn -1", "overlap\nreturn -1\ntree early\nreturn 1\ntree overlap\nreturn -1", 21, "\"tree overlap\"", "and nothing else" },
	{ "no value of EARLY",    "overlap\nreturn -1", "overlap\nreturn -1\ntree early\nreturn 3", 20, "\"3\"", "an id should be a number of -1 to 2" },
	{ "an overlap that is none","overlap\nreturn -1", "overlap\nreturn 2", 18, "\"2\"", "an id should be a number of -1 to 1" },
	{ "the cheapest overlap", "overlap\nreturn -1", "overlap\nreturn cheapest", 18, "\"cheapest\"", "an id should be a number of -1 to 1" },
	{ "streams of a part",    "return cheapest", "return streams", 16, "\"streams\"", "an id should be a number" },
	{ "a whole part",         "return cheapest", "return whole",   16, "\"whole\"", "an id should be a number" },
	{ "prices of the overlap","price decode", "price overlap",      8, "\"overlap\"", "\"prefill\" or \"decode\" is expected" },
	{ "prices of no decision","price decode", "price all",          8, "\"all\"", "\"prefill\" or \"decode\" is expected" },
	{ "an unlisted id",       "decode 1 128", "decode 2 128",       8, "\"2\"", "a choice listed above should be a number of 0 to 1" },
	{ "a negative id of it",  "decode 1 128", "decode -1 128",      8, "\"-1\"", "a number of 0 to 1" },
	{ "prices above choices", "choice 1", "price decode 1 128\nchoice 1", 7, "\"1\"", "a number of 0 to 0" },
	{ "choices below prices", "tree prefill", "choice 2",           9, "\"choice\"", "\"tree prefill\"" },
	{ "no head size",         "1 128 16", "1 0 16",                 8, "\"0\"", "a head size should be a number of 1" },
	{ "no rows",              "128 16 64", "128 0 64",              8, "\"0\"", "rows should be a number of 1" },
	{ "no tile",              "16 64 4", "16 0 4",                  8, "\"0\"", "tile should be a number of 1" },
	{ "a negative number of heads", "64 4 2", "64 -4 2",            8, "\"-4\"", "heads should be a number of 0" },
	{ "no slots",             "4 2 96", "4 0 96",                   8, "\"0\"", "slots should be a number of 1" },
	{ "too many slots",       "4 2 96", "4 1025 96",                8, "\"1025\"", "slots should be a number of 1 to 1024" },
	{ "a negative start",     "2 96 7", "2 -96 7",                  8, "\"-96\"", "start should be a number of 0" },
	{ "a negative price",     "96 7 14", "96 -7 14",                8, "\"-7\"", "launch should be a number of 0" },
	{ "a broken price",       "96 7 14", "96 7.5 14",               8, "\"7.5\"", "launch should be a number of 0" },
	{ "a huge price",         "96 7 14", "96 99999999999999 14",    8, "\"99999999999999\"", "launch should be a number of 0 to" },
	{ "too few prices",       "96 7 14", "96 14",                   8, "\"\"", "should be a number of 0" },
	{ "too many prices",      "96 7 14", "96 7 7 14",               8, "\"", "the line should end before it" },
	{ "a word behind prices", " # to decode", " to decode",         8, "\"to decode\"", "the line should end before it" },
	{ "half a word",          "return cheapest", "return cheap",   16, "\"cheap\"", "an id should be a number" },
	{ "more than the cheapest","return cheapest", "return cheapest 1", 16, "\"1\"", "the line should end before it" },
	{ "control characters",   "tree overlap", "tr\x01""e overlap", 17, "\"tr?e overlap\"", "\"tree overlap\", then" },
};
// clang-format on

/* What the file is refused with. */
static const char *refusal(const char *text, size_t size)
{
	const struct device_info d = device_of("h200");
	struct override *o = (struct override *)&d;
	put(text, size);
	assert_int_equal(override_open(&o, path, &d), ATTUNE_INVALID);
	assert_null(o);
	assert_null(strchr(attune_last_error(), '\n'));
	return attune_last_error();
}

static void broken_files_are_refused_by_line(void **state)
{
	char *text = completed(good), where[64];
	(void)state;
	for (size_t i = 0; i < COUNT(broken); i++) {
		const struct broken *b = &broken[i];
		char *wrong = edited(text, b->from, b->to);
		const char *said = refusal(wrong, strlen(wrong));
		snprintf(where, sizeof where, "%s:%d: ", path, b->line);
		if (strncmp(said, where, strlen(where)) || !strstr(said, b->found) ||
		    !strstr(said, b->right))
			fail_msg("%s: %s", b->name, said);
		free(wrong);
	}
	free(text);
}

static void limits_are_kept(void **state)
{
	enum { DEEP = 65, MANY = 257, PRICES = 4097 };
	char *text = completed(good), *more = malloc(MAX_TEXT);
	(void)state;
	assert_non_null(more);
	more[0] = '\0'; /* below each threshold the next one */
	for (int i = 0; i < DEEP; i++)
		strcat(more, "if num_seqs <= 8\n");
	char *deep = edited(text, "return 0", more);
	assert_non_null(strstr(refusal(deep, strlen(deep)), "at most 64 deep"));
	free(deep);
	more[0] = '\0';
	for (int i = 1; i < MANY; i++)
		sprintf(more + strlen(more), "choice %d " SEGMENTED "2\n", i);
	char *many = edited(text, "choice 1 " SEGMENTED "balance(1,96,192,16)\n", more);
	assert_non_null(strstr(refusal(many, strlen(many)), "at most 256 choices"));
	free(many);
	const char *price = strstr(text, "price"), *stop = strstr(text, " # to decode");
	more[0] = '\0';
	for (int i = 1; i < PRICES; i++)
		sprintf(more + strlen(more), "%.*s\n", (int)(stop - price), price);
	char *dear = edited(text, "tree prefill", more);
	assert_non_null(strstr(refusal(dear, strlen(dear)), "at most 4096 prices"));
	free(dear);
	char *none = edited(text, "choice 0", "# choice 0");
	assert_non_null(strstr(refusal(none, strlen(none)), "the next choice should be"));
	free(none);
	free(more);
	free(text);
}

static void files_that_are_no_text(void **state)
{
	const struct device_info d = device_of("h200");
	struct override *o;
	char *text = completed(good), *large = calloc(1, (1 << 20) + 1);
	(void)state;
	assert_non_null(strstr(refusal("", 0), ":0: \"\"; \"attune heuristics 3\" is expected"));
	strchr(text, 'g')[0] = '\0';
	assert_non_null(strstr(refusal(text, strlen(good)), ":2: a NUL byte"));
	memset(large, '#', (1 << 20) + 1);
	assert_non_null(strstr(refusal(large, (1 << 20) + 1), "more than 1048576 bytes"));
	assert_int_equal(override_open(&o, "/nowhere/rules", &d), ATTUNE_INVALID);
	assert_non_null(strstr(attune_last_error(), "/nowhere/rules: No such file"));
	assert_int_equal(override_open(&o, "/", &d), ATTUNE_INVALID);
	assert_non_null(strstr(attune_last_error(), "/: Is a directory"));
	free(large);
	free(text);
}

static void prices_are_read(const struct selector *s)
{
	assert_int_equal(s->num_prices, 1);
	const struct price *p = price_for(s->prices, s->num_prices, DECIDE_DECODE, 1, 128);
	assert_non_null(p);
	assert_true(p->rows == 16 && p->tile == 64 && p->heads == 4 && p->slots == 2 &&
		    p->start == 96);
	for (int i = 0; i < NUM_PRICE_TERMS; i++)
		assert_int_equal(p->fs[i], 7 + 7 * i);
}

/* Blanks, comments and line ends as people and other machines write them. */
static void layout_does_not_matter(void **state)
{
	static const char *const edits[][2] = {
		{ "gpu h200\n", "gpu h200\r\n" },
		{ "gpu h200\n", "\n  \t\n# for\n\tgpu   h200  # this\n" },
		{ "return 1", "return 1\n\n# the end\n" },
		{ "choice 0 qblock", "  choice  0\tqblock  " },
		{ "return 0", "return -1" },
		{ "return 0", "return \tcheapest # of none" },
		{ "overlap\nreturn -1", "overlap\nreturn streams" },
		{ "overlap\nreturn -1", "overlap\nreturn whole" },
		{ "tree overlap\nreturn -1", "" },
		{ "overlap\nreturn -1", "overlap\nif work <= 9\nreturn 0\nreturn -1" },
		{ "tree overlap\nreturn -1", "tree early\nif num_seqs <= 4\nreturn 2\nreturn own" },
		{ "overlap\nreturn -1", "overlap\nreturn streams\ntree early\nreturn 0" },
		{ "price decode 1 128", "\tprice\tdecode  1 128 " },
	};
	const struct device_info d = device_of("h200");
	char *text = completed(good);
	(void)state;
	for (size_t i = 0; i < COUNT(edits); i++) {
		char *other = edited(text, edits[i][0], edits[i][1]);
		struct override *o;
		put(other, strlen(other));
		if (override_open(&o, path, &d))
			fail_msg("%zu: %s", i, attune_last_error());
		assert_int_equal(override_selector(o)->num_choices, 2);
		prices_are_read(override_selector(o));
		override_close(o);
		free(other);
	}
	free(text);
}

/* ---- noise ---------------------------------------------------------------------------- */

/* A byte changed, a stretch cut, moved or doubled, or a line's end lost. */
static size_t mutate(char *text, size_t n)
{
	const size_t at = below((unsigned)n), len = 1 + below(24);
	const size_t cut = len < n - at ? len : n - at;
	switch (below(4)) {
	case 0: text[at] = (char)below(256); return n;
	case 1: text[at] = "\n 0=<-#"[below(7)]; return n;
	case 2: memmove(text + at, text + at + cut, n - at - cut); return n - cut;
	default:
		memmove(text + at + cut, text + at, n - at);
		memmove(text + at, text + below((unsigned)n), cut);
		return n + cut;
	}
}

static void answers_are_ids(const struct selector *s)
{
	struct attune_features f;
	for (int i = 0; i < 20; i++) {
		random_features(&f);
		for (int d = 0; d < NUM_DECISIONS; d++) {
			const int id = selector_says(s, (enum decision)d, &f);
			assert_true(id >= (d == DECIDE_OVERLAP ? SAYS_WHOLE : SAYS_CHEAPEST));
			assert_false(id == SAYS_CHEAPEST && d == DECIDE_OVERLAP);
			assert_true(id < (d == DECIDE_EARLY ? MOST_EARLY + 1 : s->num_choices));
			assert_false(id == SAYS_CHEAPEST && d == DECIDE_EARLY);
		}
	}
}

static void noise_does_no_harm(void **state)
{
	const struct device_info d = device_of("h200");
	char *text = completed(good), *noisy = malloc(strlen(text) + 64);
	int taken = 0;
	(void)state;
	for (int i = 0; i < MUTANTS; i++) {
		size_t n = strlen(text);
		struct override *o;
		memcpy(noisy, text, n);
		for (unsigned m = 1 + below(2); m && n; m--)
			n = mutate(noisy, n);
		put(noisy, n);
		if (override_open(&o, path, &d))
			continue;
		taken++;
		answers_are_ids(override_selector(o));
		override_close(o);
	}
	assert_in_range(taken, 1, MUTANTS / 2);
	free(noisy);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(headers_mean_the_same_as_files),
		cmocka_unit_test(broken_files_are_refused_by_line),
		cmocka_unit_test(limits_are_kept),
		cmocka_unit_test(files_that_are_no_text),
		cmocka_unit_test(layout_does_not_matter),
		cmocka_unit_test(noise_does_no_harm),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("override", tests, make_file, close_file);
}
