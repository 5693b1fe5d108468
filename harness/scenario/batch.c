/* SPDX-License-Identifier: Apache-2.0 */
/* batch.c - parses and formats vLLM's batch grammar; the corner batches that checks use.
 *
 *   batch = group { '_' group }
 *   group = [count] 'q' length [ 's' length ]     s: the sequence length, default q
 *   length = digits [ 'k' ]                       k: x 1024
 *
 * Also legal, for tests: q0 (a sequence without work) and s below q (a query longer than its
 * sequence). scenario.c refuses the latter. */
#include "scenario.h"
#include <stdio.h>
#include <stdlib.h>

enum { MAX_SEQS = 1 << 16, MAX_LEN = 1 << 24, MAX_TOKENS = 1 << 30 };

struct cursor {
	const char *text, *at;
	char *error;
	size_t size;
};

/* Returns 0. found: describes the text at `at`; NULL: quotes the character there. */
static int refuse(struct cursor *c, const char *at, const char *expected, const char *found)
{
	char one[16];
	unsigned char ch = (unsigned char)*at;
	if (!found)
		found = one;
	if (!ch)
		snprintf(one, sizeof one, "the end");
	else if (ch < ' ' || ch > '~')
		snprintf(one, sizeof one, "byte 0x%02x", ch);
	else
		snprintf(one, sizeof one, "'%c'", ch);
	snprintf(c->error, c->size, "column %d: expected %s, found %s", (int)(at - c->text) + 1,
		 expected, found);
	return 0;
}

static int is_digit(char ch)
{
	return ch >= '0' && ch <= '9';
}

/* Parses digits; saturates above every limit. */
static long long digits(struct cursor *c)
{
	long long n = 0;
	for (; is_digit(*c->at); c->at++)
		n = n > 1ll << 40 ? n : n * 10 + (*c->at - '0');
	return n;
}

static int length(struct cursor *c, const char *what, int *out)
{
	const char *start = c->at;
	char expected[80];
	long long n;
	if (!is_digit(*c->at)) {
		snprintf(expected, sizeof expected, "a %s length", what);
		return refuse(c, c->at, expected, NULL);
	}
	n = digits(c);
	if (*c->at == 'k') {
		n *= 1024;
		c->at++;
	}
	if (n > MAX_LEN) {
		snprintf(expected, sizeof expected, "a %s length of at most %dk", what,
			 MAX_LEN / 1024);
		return refuse(c, start, expected, "more");
	}
	*out = (int)n;
	return 1;
}

struct group {
	int count, query, seq;
};

static int parse_group(struct cursor *c, struct group *g)
{
	const char *start = c->at;
	long long count = 1;
	int has_k, has_s;
	if (is_digit(*c->at))
		count = digits(c);
	else if (*c->at != 'q')
		return refuse(c, c->at, "a count or 'q'", NULL);
	if (count < 1 || count > MAX_SEQS)
		return refuse(c, start, "a count of 1 to 65536", count ? "more" : "0");
	g->count = (int)count;
	if (*c->at != 'q')
		return refuse(c, c->at, "'q' and a query length", NULL);
	c->at++;
	if (!length(c, "query", &g->query))
		return 0;
	g->seq = g->query;
	has_s = *c->at == 's';
	if (has_s) {
		c->at++;
		if (!length(c, "sequence", &g->seq))
			return 0;
	}
	has_k = c->at[-1] == 'k';
	if (*c->at && *c->at != '_')
		return refuse(c, c->at,
			      has_s   ? has_k ? "'_' or the end" : "'k', '_' or the end"
			      : has_k ? "'s', '_' or the end"
				      : "'k', 's', '_' or the end",
			      NULL);
	return 1;
}

static int append(struct cursor *c, const char *start, struct batch *b, const struct group *g)
{
	int n = b->view.num_seqs, total = n + g->count;
	int32_t *query_start, *seq_lens;
	if (total > MAX_SEQS)
		return refuse(c, start, "at most 65536 sequences in all", "more");
	if (b->query_start[n] + (long long)g->count * g->query > MAX_TOKENS)
		return refuse(c, start, "at most 1048576k query tokens in all", "more");
	query_start = realloc(b->query_start, ((size_t)total + 1) * sizeof *query_start);
	if (query_start)
		b->query_start = query_start;
	seq_lens = realloc(b->seq_lens, (size_t)total * sizeof *seq_lens);
	if (seq_lens)
		b->seq_lens = seq_lens;
	if (!query_start || !seq_lens) {
		snprintf(c->error, c->size, "out of memory");
		return 0;
	}
	for (int i = n; i < total; i++) {
		b->query_start[i + 1] = b->query_start[i] + g->query;
		b->seq_lens[i] = g->seq;
	}
	b->view.num_seqs = total;
	return 1;
}

struct batch *batch_parse(const char *text, char *error, size_t size)
{
	struct cursor c = { .text = text, .at = text, .error = error, .size = size };
	struct batch *b = calloc(1, sizeof *b);
	if (b)
		b->query_start = calloc(1, sizeof *b->query_start);
	if (!b || !b->query_start) {
		snprintf(error, size, "out of memory");
		batch_free(b);
		return NULL;
	}
	for (;;) {
		const char *start = c.at;
		struct group g;
		if (!parse_group(&c, &g) || !append(&c, start, b, &g)) {
			batch_free(b);
			return NULL;
		}
		if (!*c.at)
			break;
		c.at++; /* the '_' */
	}
	b->view.size = sizeof b->view;
	b->view.query_start = b->query_start;
	b->view.seq_lens = b->seq_lens;
	return b;
}

void batch_free(struct batch *b)
{
	if (!b)
		return;
	free(b->query_start);
	free(b->seq_lens);
	free(b);
}

int batch_query_len(const attune_batch *b, int seq)
{
	return b->query_start[seq + 1] - b->query_start[seq];
}

int batch_is_of_phase(const attune_batch *b, enum phase phase, int seq)
{
	const int is_decode = batch_query_len(b, seq) <= DECODE_MAX_QUERY;
	return phase == PHASE_ALL || (phase == PHASE_DECODE) == is_decode;
}

static void put_length(FILE *f, char letter, int n)
{
	if (n && n % 1024 == 0)
		fprintf(f, "%c%dk", letter, n / 1024);
	else
		fprintf(f, "%c%d", letter, n);
}

char *batch_format(const attune_batch *b)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	if (!f)
		return NULL;
	for (int i = 0, next; i < b->num_seqs; i = next) {
		int query = b->query_start[i + 1] - b->query_start[i];
		for (next = i + 1; next < b->num_seqs; next++)
			if (b->query_start[next + 1] - b->query_start[next] != query ||
			    b->seq_lens[next] != b->seq_lens[i])
				break;
		if (i)
			fputc('_', f);
		if (next - i > 1)
			fprintf(f, "%d", next - i);
		put_length(f, 'q', query);
		if (b->seq_lens[i] != query)
			put_length(f, 's', b->seq_lens[i]);
	}
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}

/* ---- corner batches ---------------------------------------------------------------- */
/* Small batches that have broken kernels, here or elsewhere. Lengths lie around the sizes of pages,
 * tiles and blocks: 8, 16, 32, 48, 64, 128, 256, 544. */

// clang-format off
const char *const corner_batches[] = {
	/* decode */
	"q1s1",
	"q1s1_q1s2_q1s7_q1s8_q1s9_q1s15_q1s16_q1s17_q1s31_q1s32_q1s33_q1s47_q1s48_q1s49",
	"q1s63_q1s64_q1s65_q1s127_q1s128_q1s129_q1s255_q1s256_q1s257_q1s543_q1s544_q1s545_q1s1057",
	"q1s4113",                                 /* enough keys for many segments */
	"3q1s1100_q1s3_q1s2000",                   /* segments without a key next to full ones */
	"q0_q1s40_q0s100_q1s1_2q0",                /* sequences without a query, at the ends too */
	"q2s2_q3s50_q4s64_q5s65_q6s131_q7s16_q8s523", /* speculative: 2 to 8 tokens */
	"q4s1_q8s3_q1s0_q2s2",                     /* queries longer than the sequence */
	/* prefill */
	"q9",
	"q16_q17_q15",
	"q63_q64_q65",
	"q127_q33_q129",
	"q257s257_q48s48",
	"q31s700_q64s545_q100s1057",               /* chunks over a context */
	"q40s17_q20s0_q9s8",                       /* rows without a key, and with a few */
	"q0_q30_q0_q13s300_q0",
	/* both: decodes of one token in front, as engines order them, and behind */
	"q1s60_q1s170_3q1s17_q141s300_q11_q33s64",
	"q9s544_q64_q50s96_q1s257_4q1s33",
	/* both, alternating */
	"q1s33_q40_q1s1_q50s96_q2s34_q9s544_q1s257",
	"q70s600_5q1s100_q11_q8s8_q0s5_q1s16",
	"q141s300_5q1s60_q11_q1s170_q0s5_q1s16_q1s1", /* decodes of one token */
	NULL
};
// clang-format on
