/* t_override.c - heuristics from a file: the rules of the committed headers mean the same there,
 * and each mistake in a file is reported with its line. */
#include "tuner/base/base.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"
#include "override_head.h"
#include "override_rows.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
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
		if (n->action == SAYS_STREAMS)
			fputs("return streams", out);
		else if (n->action == SAYS_ONE_LAUNCH)
			fputs("return one_launch", out);
		else
			fprintf(out, "return %d", n->action);
		fprintf(out, " # %d scenarios\n", n->support);
		return;
	}
	fprintf(out, "if %s <= %lld\n", feature_names[n->feature], n->threshold);
	print_node(out, t, n->below, depth + 1);
	print_node(out, t, n->above, depth + 1);
}

static void print_costs(FILE *out, const struct selector_costs *row)
{
	const struct segment_costs *c = &row->costs;
	fprintf(out, "segments %d %d %d %d %lld %lld %lld %lld\n", row->id, row->head_size,
		c->slots, c->start, c->path, c->split, c->segments, c->merge);
}

static void print_file(FILE *out, const struct forest *f)
{
	fprintf(out, "# rules of a header\n\n%s", override_head(f->gpu));
	for (int i = 0; i < f->num_choices; i++) {
		char text[MAX_CHOICE_TEXT];
		choice_text(text, sizeof text, &f->choice[i]);
		fprintf(out, "choice %d %s\n", i, text);
	}
	for (int i = 0; i < f->num_costs; i++)
		print_costs(out, &f->costs[i]);
	for (int d = 0; d < NUM_DECISIONS; d++) {
		fprintf(out, "tree %s\n", decision_names[d]);
		print_node(out, &f->tree[d], 0, 1);
	}
}

/* Thresholds of any magnitude. */
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
		char header[PATH_TEXT];
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
		assert_int_equal(s->num_costs, h->num_costs);
		for (int c = 0; c < h->num_costs; c++) {
			const struct selector_costs *a = &s->costs[c], *b = &h->costs[c];
			assert_true(a->id == b->id && a->head_size == b->head_size);
			assert_memory_equal(&a->costs, &b->costs, sizeof a->costs);
		}
		the_same(s, h);
		override_close(o);
		forest_free(&f);
	}
}

/* ---- what is wrong with a file ---------------------------------------------------------- */

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
	char hash[24], *out = edited(text, "", "");
	for (size_t i = 0; i < COUNT(hashes); i++) {
		char *hashed;
		snprintf(hash, sizeof hash, "%016llx", hashes[i]);
		hashed = edited(out, "HASH", hash);
		free(out);
		out = hashed;
	}
	return out;
}

/* The message that refuses the file. */
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
	enum { DEEP = 65, MANY = 257, COSTS = 4097 };
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
	char *many = edited(
	    text, "choice 1 " SEGMENTED "balance(1,96,192,16)\nchoice 2 " SEGMENTED "fitted\n",
	    more);
	assert_non_null(strstr(refusal(many, strlen(many)), "at most 256 choices"));
	free(many);
	const char *costs = strstr(text, "segments 2"), *stop = strstr(text, " # of head");
	more[0] = '\0';
	const int rest = (int)(stop - costs) - (int)strlen("segments 2 128");
	for (int i = 1; i < COSTS; i++)
		sprintf(more + strlen(more), "segments 2 %d%.*s\n", 256 + i, rest, stop - rest);
	char *dear = edited(text, "tree prefill", more);
	assert_non_null(strstr(refusal(dear, strlen(dear)), "at most 4096 lines of segments"));
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
	assert_non_null(strstr(refusal("", 0), ":0: \"\"; \"attune heuristics 4\" is expected"));
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

static void costs_are_read(const struct selector *s)
{
	static const struct segment_costs want = { 3, 96, 7, 14, 21, 28 };
	assert_int_equal(s->num_costs, 1);
	const struct segment_costs *c = costs_for(s->costs, s->num_costs, 2, 128);
	assert_non_null(c);
	assert_memory_equal(c, &want, sizeof want);
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
		{ "return 0", "return \tdefaults # of the kernels" },
		{ "return 2", "return defaults" },
		{ "overlap\nreturn -1", "overlap\nreturn streams" },
		{ "tree overlap\nreturn -1", "" },
		{ "overlap\nreturn -1", "overlap\nif work <= 9\nreturn 0\nreturn -1" },
		{ "tree overlap\nreturn -1", "tree early\nif num_seqs <= 4\nreturn 2\nreturn own" },
		{ "overlap\nreturn -1", "overlap\nreturn streams\ntree early\nreturn 0" },
		{ "segments 2 128", "\tsegments \t2  128 " },
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
		assert_int_equal(override_selector(o)->num_choices, 3);
		costs_are_read(override_selector(o));
		override_close(o);
		free(other);
	}
	free(text);
}

static void words_stand_for_numbers(void **state)
{
	static const struct {
		const char *from, *to;
		enum decision decision;
		int says;
	} rows[] = {
		{ "return 0", "return defaults", DECIDE_PREFILL, SAYS_DEFAULTS },
		{ "return 0", "return -1", DECIDE_PREFILL, SAYS_DEFAULTS },
		{ "return 2", "return defaults", DECIDE_DECODE, SAYS_DEFAULTS },
		{ "return 2", "return 1", DECIDE_DECODE, 1 },
		{ "return -1", "return streams", DECIDE_OVERLAP, SAYS_STREAMS },
		{ "return -1", "return one_launch", DECIDE_OVERLAP, SAYS_ONE_LAUNCH },
		{ "return -1", "return 0\ntree early\nreturn own", DECIDE_EARLY, SAYS_OWN },
	};
	const struct device_info d = device_of("h200");
	const struct attune_features f = { .blocks_per_unit = 17 };
	char *text = completed(good);
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		char *other = edited(text, rows[i].from, rows[i].to);
		struct override *o;
		put(other, strlen(other));
		if (override_open(&o, path, &d))
			fail_msg("%zu: %s", i, attune_last_error());
		assert_int_equal(selector_says(override_selector(o), rows[i].decision, &f),
				 rows[i].says);
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
			assert_true(id >= -1 || (id >= SAYS_STREAMS && d == DECIDE_OVERLAP));
			assert_true(id < (d == DECIDE_EARLY ? MOST_EARLY + 1 : s->num_choices));
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
		cmocka_unit_test(words_stand_for_numbers),
		cmocka_unit_test(noise_does_no_harm),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("override", tests, make_file, close_file);
}
