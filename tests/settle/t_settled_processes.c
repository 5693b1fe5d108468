/* SPDX-License-Identifier: Apache-2.0 */
/* t_settled_processes.c - processes that read one text of what was settled have equal digests, and
 * equal plans of any batch, byte for byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>
#include "settle_world.h"
#include <unistd.h>

enum { SETTLED = 40, BATCHES = 300, MOST_TEXT = 1 << 20 };

static unsigned long long seed;

static int draw(int least, int most)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return least + (int)((seed >> 33) % (unsigned)(most - least + 1));
}

/* Decodes, prefills, or both; the first of them are settled, the second like them, the others not. */
static void draw_batch(char text[80], int i)
{
	const int like = i >= SETTLED && i < 2 * SETTLED, kind = (like ? i - SETTLED : i) % 3;
	seed = 1 + (unsigned long long)(like ? i - SETTLED : i) * 7919;
	const int seqs = draw(1, 64), keys = draw(16, 20000) + like, chunk = draw(9, 3000);
	if (kind == 0)
		snprintf(text, 80, "%dq%ds%d", seqs, draw(1, 8), keys);
	else if (kind == 1)
		snprintf(text, 80, "%dq%ds%d", seqs % 4 + 1, chunk, chunk + keys);
	else
		snprintf(text, 80, "q%ds%d_%dq1s%d", chunk, chunk + draw(0, 9000), seqs, keys);
}

/* Three rounds in which one of the alternatives is the fastest. */
static void settle_one(const attune_op *op, const char *text)
{
	attune_plan plans[ATTUNE_MOST_ALTERNATIVES] = { { .size = sizeof *plans } };
	double us[ATTUNE_MOST_ALTERNATIVES];
	struct batch *b = batch_of(text);
	int n = 0;
	assert_int_equal(
	    attune_plan_alternatives(op, &b->view, plans, ATTUNE_MOST_ALTERNATIVES, &n), ATTUNE_OK);
	const int fast = draw(0, n - 1);
	for (int i = 0; i < n; i++)
		us[i] = i == fast ? 10 : 20 + i;
	for (int round = 0; round < 3; round++)
		assert_int_equal(attune_report(op, &b->view, plans, us, n), ATTUNE_OK);
	batch_free(b);
}

/* The digest, then all plans; an op's number is its process's own. */
static void write_plans(const struct world *w, FILE *out)
{
	const uint64_t digest = attune_settled_digest(w->ctx);
	fwrite(&digest, sizeof digest, 1, out);
	for (int i = 0; i < BATCHES; i++) {
		char text[80];
		draw_batch(text, i);
		attune_plan plan = plan_of(w->op, text);
		memset(&plan.op, 0, sizeof plan.op);
		fwrite(&plan, sizeof plan, 1, out);
	}
}

static void write_text(const struct world *w, const char *path)
{
	static char text[MOST_TEXT];
	size_t size;
	FILE *out = fopen(path, "w");
	assert_non_null(out);
	assert_int_equal(attune_settled_text(w->ctx, text, sizeof text, &size), ATTUNE_OK);
	assert_int_equal(fwrite(text, 1, size, out), size);
	assert_int_equal(fclose(out), 0);
}

static const char *this_program;

/* `t_settled_processes GPU FILE` */
static int another_process(const char *gpu, const char *path)
{
	static char text[MOST_TEXT];
	struct world w;
	FILE *in = fopen(path, "r");
	const size_t size = in ? fread(text, 1, sizeof text, in) : 0;
	int dropped = 0;
	if (in)
		fclose(in);
	world_open(&w, gpu);
	if (attune_settled_read(w.ctx, text, size, NULL, &dropped) || dropped ||
	    attune_settled_commit(w.ctx))
		return 1;
	write_plans(&w, stdout);
	world_close(&w);
	return 0;
}

static size_t bytes_of(FILE *from, char *bytes, size_t room)
{
	assert_non_null(from);
	return fread(bytes, 1, room, from);
}

static void processes_agree(void **state)
{
	enum { ROOM = BATCHES * sizeof(attune_plan) + 8 };
	static char got[3][ROOM + 1];
	const char *gpu = *state;
	char path[] = "/tmp/attune_settled_XXXXXX", command[400];
	struct world w;
	const int fd = mkstemp(path);
	FILE *own = tmpfile();
	int changed = 0;
	assert_true(fd >= 0 && own);
	close(fd);
	world_open(&w, gpu);
	write_plans(&w, own);
	rewind(own);
	assert_int_equal(bytes_of(own, got[0], sizeof got[0]), ROOM);
	for (int i = 0; i < SETTLED; i++) {
		char text[80];
		draw_batch(text, i);
		settle_one(w.op, text);
	}
	commit(w.ctx);
	write_text(&w, path);
	snprintf(command, sizeof command, "'%s' %s %s", this_program, gpu, path);
	for (int i = 1; i < 3; i++) {
		FILE *from = popen(command, "r");
		assert_int_equal(bytes_of(from, got[i], sizeof got[i]), ROOM);
		assert_int_equal(pclose(from), 0);
	}
	for (int i = 0; i < BATCHES; i++)
		changed += memcmp(got[0] + 8 + i * sizeof(attune_plan),
				  got[1] + 8 + i * sizeof(attune_plan), sizeof(attune_plan)) != 0;
	assert_true(changed > SETTLED / 2);
	assert_true(!memcmp(got[1], got[2], ROOM));
	rewind(own);
	write_plans(&w, own);
	rewind(own);
	assert_int_equal(bytes_of(own, got[0], sizeof got[0]), ROOM);
	assert_true(!memcmp(got[0], got[1], ROOM));
	fclose(own);
	unlink(path);
	world_close(&w);
}

int main(int argc, char **argv)
{
	static char *const gpus[] = { "h200", "mi300", "cpu" };
	struct CMUnitTest tests[COUNT(gpus)];
	this_program = argv[0];
	if (argc == 3)
		return another_process(argv[1], argv[2]);
	for (size_t i = 0; i < COUNT(gpus); i++)
		tests[i] =
		    (struct CMUnitTest){ gpus[i], processes_agree, NULL, NULL, (void *)gpus[i] };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("settled processes", tests, NULL, NULL);
}
