/* SPDX-License-Identifier: Apache-2.0 */
/* t_coverage.c - coverage_h200, which rules are learned from, and coverage_unseen_h200, which judges
 * them, have batches of each kind that users bring, the gate those of some kinds, and no batch is
 * in two of the coverage sets.
 * Runs in the root of the repository. */
#include "harness/scenario/scenario.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { TRAIN, UNSEEN, GATE, SETS };
static const char *const sets[SETS] = { "coverage_h200", "coverage_unseen_h200",
					"coverage_gate_h200" };
static struct scenario_list list[SETS];

/* What a row of `kinds` asks of a scenario. */
struct seen {
	const attune_shape *s;
	int group, prefills, decodes, most_query; /* most_query: of the decodes */
	int shortest, longest, even;              /* sequences of decodes */
	int most_prompt, layout;
};

static struct seen seen_of(const struct scenario *of)
{
	const attune_batch *b = &of->batch->view;
	struct seen e = { .s = &of->shape,
			  .group = of->shape.num_query_heads / of->shape.num_kv_heads,
			  .layout = of->layout };
	for (int i = 0; i < b->num_seqs; i++) {
		const int query = batch_query_len(b, i), seq = b->seq_lens[i];
		if (query > DECODE_MAX_QUERY) {
			e.prefills++;
			e.most_prompt = query > e.most_prompt ? query : e.most_prompt;
			continue;
		}
		e.most_query = query > e.most_query ? query : e.most_query;
		e.shortest = !e.decodes || seq < e.shortest ? seq : e.shortest;
		e.longest = seq > e.longest ? seq : e.longest;
		e.decodes++;
	}
	return e;
}

// clang-format off
#define MHA(size, heads)    X("one head, " #heads " of " #size, e.group == 1 && e.s->head_size == size && e.s->num_query_heads == heads)
#define GROUP(n)            X("group " #n, e.group == n)
#define PAGES(n)            X("pages of " #n, e.s->page_size == n)
#define GATED(what, is)     X("gate: " what ", prefills", (is) && e.prefills) X("gate: " what ", decodes", (is) && e.decodes)	/* in all three sets */
#define BOTH(what, is)      X(what ", prefills", (is) && e.prefills) X(what ", decodes", (is) && e.decodes)
#define E4M3(what, is)      X("E4M3, " what, (is) && e.s->kv_dtype == ATTUNE_E4M3)
#define KINDS											\
	MHA(64, 32) MHA(80, 32) MHA(96, 32) MHA(128, 32) MHA(256, 32)				\
	MHA(64, 40) MHA(80, 40) MHA(96, 40) MHA(128, 40) MHA(256, 40)				\
	GROUP(1) GROUP(4) GROUP(5) GROUP(7) GROUP(8) GROUP(16) GROUP(24) GROUP(32) GROUP(48) GROUP(64) GROUP(71)	\
	PAGES(1) PAGES(4) PAGES(12) PAGES(16) PAGES(20) PAGES(272) PAGES(528) PAGES(1056)	\
	BOTH("MQA", e.s->num_kv_heads == 1)							\
	BOTH("heads of 80", e.s->head_size == 80 && e.group > 1)				\
	BOTH("heads of 96", e.s->head_size == 96 && e.group > 1)				\
	BOTH("heads of 192", e.s->head_size == 192)						\
	GATED("pages of 1", e.s->page_size == 1)							\
	BOTH("window", e.s->window > 0)								\
	BOTH("softcap", e.s->softcap > 0)							\
	BOTH("sinks", e.s->has_sinks)								\
	BOTH("ALiBi", e.s->has_alibi)								\
	GATED("LSE", e.s->has_lse)								\
	GATED("HND", e.layout == LAYOUT_HND)							\
	GATED("packed", e.layout == LAYOUT_PACKED)						\
	GATED("pages of 4", e.s->page_size == 4)							\
	GATED("pages of 20", e.s->page_size == 20)						\
	GATED("E4M3", e.s->kv_dtype == ATTUNE_E4M3)						\
	BOTH("cross attention", !e.s->causal)							\
	E4M3("one head", e.group == 1)								\
	E4M3("window", e.s->window > 0)								\
	E4M3("head size 192", e.s->head_size == 192)						\
	X("drafts, group 4", e.group == 4 && e.most_query > 1 && !e.prefills)			\
	X("drafts, group 8", e.group == 8 && e.most_query > 1 && !e.prefills)			\
	X("few ragged decodes", !e.prefills && e.decodes > 1 && e.decodes <= 5 && e.longest > 2 * e.shortest)	\
	X("short chats", e.prefills == 1 && e.most_prompt <= 1024 && e.decodes > 1 && e.decodes <= 7 && e.longest <= 4096)
// clang-format on

static const char *const kinds[] = {
#define X(name, is) name,
	KINDS
#undef X
};

static int is_of(int kind, struct seen e)
{
	const int of[] = {
#define X(name, is) is,
		KINDS
#undef X
	};
	return of[kind];
}

static void has_kind(void **arg)
{
	const int kind = (int)((const char *const *)*arg - kinds);
	const int last = strncmp(kinds[kind], "gate: ", 6) ? UNSEEN : GATE;
	for (int k = TRAIN; k <= last; k++) {
		int n = 0;
		for (int i = 0; i < list[k].n; i++)
			n += is_of(kind, seen_of(&list[k].v[i]));
		if (!n)
			fail_msg("%s has none", sets[k]);
	}
}

/* A held-out batch that was learned from would flatter, whatever its model. */
static void no_batch_twice(void **arg)
{
	(void)arg;
	for (int a = 0; a < SETS; a++)
		for (int b = 0; b < a; b++)
			for (int i = 0; i < list[a].n; i++)
				for (int j = 0; j < list[b].n; j++)
					if (!strcmp(list[a].v[i].batch_text,
						    list[b].v[j].batch_text))
						fail_msg("%s is in %s and %s",
							 list[a].v[i].batch_text, sets[a], sets[b]);
}

int main(void)
{
	static struct CMUnitTest tests[sizeof kinds / sizeof *kinds + 1];
	size_t n = 0;
	struct models *models = models_load("scenarios/models.json");
	if (!models)
		return 1;
	for (int k = 0; k < SETS; k++)
		if (!scenario_sets_load(&list[k], "scenarios", &sets[k], 1, NULL, models))
			return 1;
	for (; n < sizeof kinds / sizeof *kinds; n++)
		tests[n] = (struct CMUnitTest){ kinds[n], has_kind, NULL, NULL, (void *)&kinds[n] };
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(no_batch_twice);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const int failed = _cmocka_run_group_tests("coverage", tests, n, NULL, NULL);
	for (int k = 0; k < SETS; k++)
		scenarios_free(&list[k]);
	models_free(models);
	return failed;
}
