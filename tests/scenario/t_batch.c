/* SPDX-License-Identifier: Apache-2.0 */
/* t_batch.c - the batch grammar: known texts, errors word for word, round trips of random
 * batches, and random input. */
#include "harness/scenario/scenario.h"
#include "kernels/spec/choice.h"
#include "kernels/spec/part.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 4000, MUTANTS = 40000, MAX_TEXT = 64 };

static unsigned long long state = 20261121;

static unsigned below(unsigned n)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(state >> 33) % n;
}

// clang-format off
static const struct good {
	const char *text, *canonical;
	int seqs, tokens;
	long long kv;
} good[] = {
	/* text                  canonical           seqs  tokens  KV tokens */
	{ "q1",                  "q1",                  1,      1,        1 },
	{ "32q1s16k",            "32q1s16k",           32,     32,   524288 },
	{ "2q2k_32q1s1k",        "2q2k_32q1s1k",       34,   4128,    36864 },
	{ "1q1024s1024",         "q1k",                 1,   1024,     1024 },
	{ "q1s5_q1s5_2q1s5",     "4q1s5",               4,      4,       20 },
	{ "q1500s3000",          "q1500s3000",          1,   1500,     3000 },
	{ "q0",                  "q0",                  1,      0,        0 },
	{ "3q0s7_q0ks0k",        "3q0s7_q0",            4,      0,       21 },
	{ "q4s2",                "q4s2",                1,      4,        2 },
	{ "007q010s0020",        "7q10s20",             7,     70,      140 },
	{ "q1_q2_q1",            "q1_q2_q1",            3,      4,        4 },
	{ "65536q1",             "65536q1",         65536,  65536,    65536 },
	{ "q1s16384k",           "q1s16384k",           1,      1, 16777216 },
	{ "64q16384k",           "64q16384k",          64, 1 << 30, 1 << 30 },
};

static const struct bad {
	const char *text, *error;
} bad[] = {
	{ "",              "column 1: expected a count or 'q', found the end" },
	{ "x",             "column 1: expected a count or 'q', found 'x'" },
	{ "-1q1",          "column 1: expected a count or 'q', found '-'" },
	{ " q1",           "column 1: expected a count or 'q', found ' '" },
	{ "q1_",           "column 4: expected a count or 'q', found the end" },
	{ "q1__q1",        "column 4: expected a count or 'q', found '_'" },
	{ "\x01",          "column 1: expected a count or 'q', found byte 0x01" },
	{ "q1_\xc3\xa4",   "column 4: expected a count or 'q', found byte 0xc3" },
	{ "0q1",           "column 1: expected a count of 1 to 65536, found 0" },
	{ "q1_65537q1",    "column 4: expected a count of 1 to 65536, found more" },
	{ "99999999999999999999999q1",
	                   "column 1: expected a count of 1 to 65536, found more" },
	{ "32",            "column 3: expected 'q' and a query length, found the end" },
	{ "2kq1",          "column 2: expected 'q' and a query length, found 'k'" },
	{ "2s1",           "column 2: expected 'q' and a query length, found 's'" },
	{ "32q",           "column 4: expected a query length, found the end" },
	{ "32qk",          "column 4: expected a query length, found 'k'" },
	{ "q-1",           "column 2: expected a query length, found '-'" },
	{ "q1s",           "column 4: expected a sequence length, found the end" },
	{ "q1s_q1",        "column 4: expected a sequence length, found '_'" },
	{ "q1m",           "column 3: expected 'k', 's', '_' or the end, found 'm'" },
	{ "q1K",           "column 3: expected 'k', 's', '_' or the end, found 'K'" },
	{ "q1kk",          "column 4: expected 's', '_' or the end, found 'k'" },
	{ "q1s2,q1",       "column 5: expected 'k', '_' or the end, found ','" },
	{ "q1s2ks3",       "column 6: expected '_' or the end, found 's'" },
	{ "q1s2\n",        "column 5: expected 'k', '_' or the end, found byte 0x0a" },
	{ "q16777217",     "column 2: expected a query length of at most 16384k, found more" },
	{ "q1s16385k",     "column 4: expected a sequence length of at most 16384k, found more" },
	{ "q1s99999999999999999999k",
	                   "column 4: expected a sequence length of at most 16384k, found more" },
	{ "65536q1_q1",    "column 9: expected at most 65536 sequences in all, found more" },
	{ "q1_64q16384k",
	  "column 4: expected at most 1048576k query tokens in all, found more" },
};
// clang-format on

static void parses(void **arg)
{
	const struct good *row = *arg;
	char error[128] = "";
	struct batch *b = batch_parse(row->text, error, sizeof error);
	long long kv = 0;
	char *text;
	assert_string_equal(error, "");
	assert_non_null(b);
	assert_null(batch_error(&b->view, NULL));
	for (int i = 0; i < b->view.num_seqs; i++)
		kv += b->view.seq_lens[i];
	assert_int_equal(b->view.num_seqs, row->seqs);
	assert_int_equal(b->view.query_start[row->seqs], row->tokens);
	assert_true(kv == row->kv);
	text = batch_format(&b->view);
	assert_string_equal(text, row->canonical);
	free(text);
	batch_free(b);
}

static void refuses(void **arg)
{
	const struct bad *row = *arg;
	char error[128] = "", few[9] = "";
	assert_null(batch_parse(row->text, error, sizeof error));
	assert_string_equal(error, row->error);
	assert_null(batch_parse(row->text, few, sizeof few)); /* a short buffer is cut */
	assert_memory_equal(few, row->error, sizeof few - 1);
}

static int random_length(void)
{
	switch (below(5)) {
	case 0: return (int)below(3);
	case 1: return (int)below(64) * 1024;
	case 2: return (int)below(16) * 512;
	default: return (int)below(5000);
	}
}

static void same(const attune_batch *a, const attune_batch *b)
{
	size_t n = (size_t)a->num_seqs;
	assert_int_equal(b->num_seqs, a->num_seqs);
	assert_memory_equal(b->query_start, a->query_start, (n + 1) * sizeof *a->query_start);
	assert_memory_equal(b->seq_lens, a->seq_lens, n * sizeof *a->seq_lens);
}

/* parse(format(b)) == b, and formatting again gives the same text. */
static void round_trips(void **arg)
{
	(void)arg;
	for (int round = 0; round < ROUNDS; round++) {
		int32_t query_start[41] = { 0 }, seq_lens[40];
		attune_batch b = { sizeof(attune_batch), 1 + (int)below(40), query_start,
				   seq_lens };
		struct batch *back;
		char error[128] = "", *text, *again;
		for (int i = 0; i < b.num_seqs; i++) {
			int query = random_length(), repeat = i && below(2);
			if (repeat)
				query = query_start[i] - query_start[i - 1];
			query_start[i + 1] = query_start[i] + query;
			seq_lens[i] = repeat     ? seq_lens[i - 1]
				      : below(3) ? query + random_length()
						 : random_length();
		}
		text = batch_format(&b);
		assert_non_null(text);
		back = batch_parse(text, error, sizeof error);
		assert_string_equal(error, "");
		same(&b, &back->view);
		again = batch_format(&back->view);
		assert_string_equal(again, text);
		free(again);
		free(text);
		batch_free(back);
	}
}

/* Either a valid batch with a stable text, or a message with a column. */
static void survive(const char *text)
{
	char error[128] = "", *canonical;
	int column = 0;
	struct batch *b = batch_parse(text, error, sizeof error), *back;
	if (!b) {
		assert_int_equal(sscanf(error, "column %d: expected ", &column), 1);
		assert_in_range(column, 1, strlen(text) + 1);
		return;
	}
	assert_null(batch_error(&b->view, NULL));
	canonical = batch_format(&b->view);
	back = batch_parse(canonical, error, sizeof error);
	assert_non_null(back);
	same(&b->view, &back->view);
	free(canonical);
	batch_free(back);
	batch_free(b);
}

static void survives_mutants(void **arg)
{
	static const char letters[] = "qsk_0123456789q_sk x\xff";
	(void)arg;
	for (int i = 0; i < MUTANTS; i++) {
		char text[MAX_TEXT + 1];
		size_t n;
		snprintf(text, sizeof text, "%s", good[below(COUNT(good))].text);
		for (unsigned edits = 1 + below(4); edits; edits--) {
			n = strlen(text);
			size_t at = below((unsigned)n + 1);
			char ch = letters[below(sizeof letters - 1)];
			switch (below(3)) {
			case 0: /* put in */
				if (n < MAX_TEXT) {
					memmove(text + at + 1, text + at, n - at + 1);
					text[at] = ch;
				}
				break;
			case 1: /* take out */
				if (at < n)
					memmove(text + at, text + at + 1, n - at);
				break;
			default:
				if (at < n)
					text[at] = ch;
			}
		}
		survive(text);
	}
}

static void survives_noise(void **arg)
{
	(void)arg;
	for (int i = 0; i < MUTANTS; i++) {
		char text[MAX_TEXT + 1];
		unsigned n = below(MAX_TEXT);
		for (unsigned j = 0; j < n; j++)
			text[j] = (char)(1 + below(255));
		text[n] = '\0';
		survive(text);
	}
}

int main(void)
{
	struct CMUnitTest tests[COUNT(good) + COUNT(bad) + 3];
	size_t n = 0;
	for (size_t i = 0; i < COUNT(good); i++)
		tests[n++] =
		    (struct CMUnitTest){ good[i].text, parses, NULL, NULL, (void *)&good[i] };
	for (size_t i = 0; i < COUNT(bad); i++)
		tests[n++] =
		    (struct CMUnitTest){ bad[i].error, refuses, NULL, NULL, (void *)&bad[i] };
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(round_trips);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(survives_mutants);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(survives_noise);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("batch", tests, n, NULL, NULL);
}
