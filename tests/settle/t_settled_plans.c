/* SPDX-License-Identifier: Apache-2.0 */
/* t_settled_plans.c - what a commit changes: the plans of batches of the settled cells and no
 * others, always to legal ones, and never the largest workspace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>
#include "any_value.h"
#include "settle_world.h"
#include "kernels/settle/store.h"

static const char *const gpus[] = { "h200", "h100", "mi300", "cpu" };

/* Two batches of one cell, and one that is not of it, in either phase. */
static const struct {
	const char *settled, *alike, *other;
} batches[] = {
	{ "32q1s4k", "30q1s4k_3q1s4100", "32q1s8k" },
	{ "2q2k", "2q2050", "2q3k" },
};

static void changes_its_cell_and_no_other(void **state)
{
	int alikes = 0;
	(void)state;
	for (size_t i = 0; i < COUNT(gpus) * COUNT(batches); i++) {
		const char *settled = batches[i % COUNT(batches)].settled;
		const char *alike = batches[i % COUNT(batches)].alike;
		const char *other = batches[i % COUNT(batches)].other;
		struct world w;
		world_open(&w, gpus[i / COUNT(batches)]);
		const attune_plan before = plan_of(w.op, settled), apart = plan_of(w.op, other);
		const int id = other_member(w.op, settled, before.part[0].choice);
		attune_plan bounds = { .size = sizeof bounds }, bounds_then = bounds;
		assert_true(id >= 0);
		assert_int_equal(attune_plan_bounds(w.op, 32, 4096, 2048, 4096, &bounds),
				 ATTUNE_OK);
		settle_part(w.op, settled, id, 900);
		const attune_plan pending = plan_of(w.op, settled);
		assert_true(same_plan_of(&pending, &before));
		assert_true(attune_settled_digest(w.ctx) == 0);
		commit(w.ctx);
		assert_int_equal(plan_of(w.op, settled).part[0].choice, id);
		/* Where the rules name another choice it is another cell. */
		if (named_of(w.op, alike) == named_of(w.op, settled)) {
			assert_int_equal(plan_of(w.op, alike).part[0].choice, id);
			alikes++;
		}
		const attune_plan apart_then = plan_of(w.op, other);
		assert_true(same_plan_of(&apart, &apart_then));
		assert_int_equal(attune_plan_bounds(w.op, 32, 4096, 2048, 4096, &bounds_then),
				 ATTUNE_OK);
		assert_true(same_plan_of(&bounds, &bounds_then));
		assert_true(attune_settled_digest(w.ctx) != 0);
		world_close(&w);
	}
	assert_true(alikes >= 6);
}

/* An op of another shape has cells of its own; one of an equal shape shares them. */
static void belongs_to_the_shape(void **state)
{
	static const char text[] = "32q1s4k";
	struct world w;
	attune_shape windowed = llama;
	attune_op *same, *other;
	(void)state;
	windowed.softcap = 50;
	world_open(&w, "h200");
	assert_int_equal(attune_prepare(w.ctx, &llama, &same), ATTUNE_OK);
	assert_int_equal(attune_prepare(w.ctx, &windowed, &other), ATTUNE_OK);
	const attune_plan before = plan_of(w.op, text), apart = plan_of(other, text);
	const int id = other_member(w.op, text, before.part[0].choice);
	settle_part(w.op, text, id, 900);
	commit(w.ctx);
	assert_int_equal(plan_of(same, text).part[0].choice, id);
	const attune_plan apart_then = plan_of(other, text);
	assert_true(same_plan_of(&apart, &apart_then));
	attune_release(same);
	attune_release(other);
	world_close(&w);
}

/* By 2 % for decodes; for prefills by 4 %, or two different batches agree. */
static void counts_beyond_the_margin(void **state)
{
	static const struct {
		const char *text;
		int share, counts;
	} rows[] = {
		{ "32q1s4k", 985, 0 },
		{ "32q1s4k", 975, 1 },
		{ "2q2k", 975, 0 },
		{ "2q2k", 955, 1 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct world w;
		world_open(&w, "h200");
		const int present = plan_of(w.op, rows[i].text).part[0].choice;
		const int id = other_member(w.op, rows[i].text, present);
		settle_part(w.op, rows[i].text, id, rows[i].share);
		commit(w.ctx);
		assert_int_equal(plan_of(w.op, rows[i].text).part[0].choice,
				 rows[i].counts ? id : present);
		world_close(&w);
	}
}

static void two_prefills_agree(void **state)
{
	(void)state;
	for (int commits_between = 0; commits_between < 2; commits_between++) {
		struct world w;
		world_open(&w, "h200");
		const int present = plan_of(w.op, "2q2k").part[0].choice;
		const int id = other_member(w.op, "2q2k", present);
		for (int again = 0; again < 2; again++) { /* the same batch counts once */
			settle_part(w.op, "2q2k", id, 975);
			if (commits_between)
				commit(w.ctx);
		}
		commit(w.ctx);
		assert_int_equal(plan_of(w.op, "2q2k").part[0].choice, present);
		settle_part(w.op, "2q2100", id, 975);
		commit(w.ctx);
		assert_int_equal(plan_of(w.op, "2q2k").part[0].choice, id);
		world_close(&w);
	}
}

/* Each way that can run, with the parts as they are; then a part in the place of another. */
static void mixed_batches_go_the_settled_way(void **state)
{
	static const char text[] = "q2k_24q1s1k", alike[] = "q2k_24q1s1050";
	static const struct {
		int way, parts;
		enum attune_how how;
		int spared;
	} rows[] = {
		{ WAY_SERIES, 2, ATTUNE_SERIAL, 0 },
		{ WAY_STREAMS, 2, ATTUNE_STREAMS, 0 },
		{ WAY_SPARING16 + 1, 2, ATTUNE_STREAMS, 32 },
		{ WAY_ONE_LAUNCH, 1, ATTUNE_SERIAL, 0 },
		{ WAY_FUSED, 1, ATTUNE_SERIAL, 0 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct world w;
		world_open(&w, "h200");
		settle_to(w.op, text,
			  (struct settled_plan){ WAY_AS_RULES, { -1, -1 }, { 0, 0 }, 20 },
			  (struct settled_plan){ rows[i].way, { -1, -1 }, { 0, 0 }, 18 });
		commit(w.ctx);
		const attune_plan plan = plan_of(w.op, alike);
		assert_int_equal(plan.num_parts, rows[i].parts);
		assert_int_equal(plan.how, rows[i].how);
		assert_int_equal(plan.spared[0], rows[i].spared);
		if (rows[i].way == WAY_FUSED)
			assert_true(w.op->ready[plan.part[0].choice].kernel->space->is_fused);
		world_close(&w);
	}
}

/* Parts take what their own cells have, but where the mixed cell has another. */
static void parts_of_mixed_batches(void **state)
{
	static const char decodes[] = "32q1s4k", text[] = "q300_32q1s4k";
	struct world w;
	(void)state;
	world_open(&w, "h200");
	const int present = plan_of(w.op, decodes).part[0].choice;
	const int id = other_member(w.op, decodes, present);
	settle_to(w.op, text, (struct settled_plan){ WAY_AS_RULES, { -1, -1 }, { 0, 0 }, 20 },
		  (struct settled_plan){ WAY_SERIES, { -1, -1 }, { 0, 0 }, 18 });
	settle_part(w.op, decodes, id, 900);
	commit(w.ctx);
	assert_int_equal(plan_of(w.op, text).part[1].choice, id);
	settle_to(w.op, text, (struct settled_plan){ WAY_SERIES, { -1, -1 }, { 0, 0 }, 20 },
		  (struct settled_plan){ WAY_STREAMS, { -1, present }, { 0, 0 }, 18 });
	commit(w.ctx);
	assert_int_equal(plan_of(w.op, text).part[1].choice, present);
	assert_int_equal(plan_of(w.op, text).how, ATTUNE_STREAMS);
	assert_int_equal(plan_of(w.op, decodes).part[0].choice, id);
	world_close(&w);
}

/* The rules may tell batches apart that have equal steps of lengths. What was settled for one way of
 * the rules is not for another. */
static void mixed_cells_know_what_the_rules_say(void **state)
{
	enum { BATCHES = 27 };
	struct {
		uint64_t parts[2], mixed;
		int says;
	} at[BATCHES];
	int pairs = 0;
	struct world w;
	(void)state;
	world_open(&w, "h200");
	for (int i = 0; i < BATCHES; i++) {
		char text[64];
		struct selection s;
		struct part whole;
		snprintf(text, sizeof text, "%dq1s8k_q%ds4k", 24 + i % 3, 262 + 6 * (i / 3));
		struct batch *b = batch_of(text);
		assert_true(parts_of_batch(w.op, &b->view, &s, &whole));
		for (int k = 0; k < 2; k++)
			at[i].parts[k] = cell_hash(w.op, k ? CELL_DECODE : CELL_PREFILL,
						   &s.choice[k], &s.part[k], NULL);
		at[i].mixed = cell_hash(w.op, CELL_MIXED, s.choice, s.part, &whole);
		at[i].says = selector_says(w.op->heuristic, DECIDE_OVERLAP, &whole.f);
		batch_free(b);
		for (int k = 0; k < i; k++) {
			const int alike =
			    at[k].parts[0] == at[i].parts[0] && at[k].parts[1] == at[i].parts[1];
			pairs += alike && at[k].says != at[i].says;
			assert_int_equal(at[k].mixed == at[i].mixed,
					 alike && at[k].says == at[i].says);
		}
	}
	assert_true(pairs > 0);
	world_close(&w);
}

/* A word of the table may be anything: a hash may meet another, memory may be damaged. */
static void any_value_gives_a_legal_plan(void **state)
{
	/* The last one's parts have more partials at a time than one part may. */
	static const char *const texts[] = { "32q1s4k", "2q2k", "q2k_24q1s1k",
					     "8q512s64k_256q8s100k" };
	(void)state;
	for (size_t i = 0; i < COUNT(gpus) * COUNT(texts); i++) {
		const char *text = texts[i % COUNT(texts)];
		struct world w;
		struct batch *b = batch_of(text);
		struct selection s;
		struct part whole;
		size_t most;
		world_open(&w, gpus[i / COUNT(texts)]);
		settle_part(w.op, "32q1s64k", plan_of(w.op, "32q1s64k").part[0].choice, 1000);
		commit(w.ctx);
		struct settled_table *t = atomic_load(&w.ctx->table);
		const int mixed = parts_of_batch(w.op, &b->view, &s, &whole);
		const enum cell_kind kind = mixed ? CELL_MIXED
					    : s.part[0].f.max_query <= DECODE_MAX_QUERY
						? CELL_DECODE
						: CELL_PREFILL;
		const uint64_t cell = cell_hash(w.op, kind, s.choice, s.part, &whole);
		assert_int_equal(attune_max_workspace(w.op, b->view.num_seqs,
						      b->view.query_start[b->view.num_seqs], &most),
				 ATTUNE_OK);
		for (int k = 0; k < 16 * 64 * 8; k++) {
			const int place[2] = { k >> 3 & 7, k >> 6 & 7 };
			const unsigned value =
			    value_naming(w.op, &s, k >> 9, place, k % 8 - 4) ^ (k % 61 == 0);
			char words[512];
			attune_plan plan = { .size = sizeof plan };
			assert_true(table_put(t, cell, value));
			if (attune_plan_batch(w.op, &b->view, &plan) ||
			    attune_plan_text(w.op, &plan, words, sizeof words))
				fail_msg("%s: %06x: %s", text, value, attune_last_error());
			assert_true(plan.workspace <= most);
		}
		batch_free(b);
		world_close(&w);
	}
}

static void a_full_table_keeps_what_it_has(void **state)
{
	struct settled_table *t = calloc(1, sizeof *t);
	uint64_t cell = 1;
	(void)state;
	assert_non_null(t);
	for (int i = 0; i <= SETTLED_CELLS; i++) {
		cell = cell * 6364136223846793005ull + 1442695040888963407ull;
		assert_int_equal(table_put(t, cell & ~(uint64_t)VALUE_MASK, 0x123456),
				 i < SETTLED_CELLS);
	}
	assert_int_equal(table_find(t, cell & ~(uint64_t)VALUE_MASK), VALUE_AS_RULES);
	cell = 1;
	for (int i = 0; i < SETTLED_CELLS; i++) {
		cell = cell * 6364136223846793005ull + 1442695040888963407ull;
		assert_int_equal(table_find(t, cell & ~(uint64_t)VALUE_MASK), 0x123456);
		assert_true(table_put(t, cell & ~(uint64_t)VALUE_MASK, 0x123457));
	}
	assert_int_equal(table_count(t), SETTLED_CELLS);
	free(t);
}

/* A server that reports all that comes, and commits late or never. */
static void reports_of_many_cells_take_a_bounded_memory(void **state)
{
	attune_plan plans[ATTUNE_MOST_ALTERNATIVES] = { { .size = sizeof *plans } };
	double us[ATTUNE_MOST_ALTERNATIVES];
	struct world w;
	int cells = 0, n, kept = 0;
	(void)state;
	world_open(&w, "h200");
	for (int query = 1; query <= 8; query *= 2)
		for (int seqs = 1; seqs <= 512; seqs += seqs / 4 + 1)
			for (int keys = 16; keys <= 200000; keys += keys / 4 + 1, cells++) {
				char text[64];
				snprintf(text, sizeof text, "%dq%ds%d", seqs, query, keys);
				struct batch *b = batch_of(text);
				assert_int_equal(attune_plan_alternatives(w.op, &b->view, plans,
									  ATTUNE_MOST_ALTERNATIVES,
									  &n),
						 ATTUNE_OK);
				for (int i = 0; i < n; i++)
					us[i] = 100 - i;
				for (int round = 0; round < 3; round++)
					assert_int_equal(
					    attune_report(w.op, &b->view, plans, us, n), ATTUNE_OK);
				batch_free(b);
			}
	assert_true(cells > SETTLED_CELLS);
	for (const struct rounds *r = w.ctx->settled->rounds; r; r = r->next)
		kept++;
	assert_in_range(kept, SETTLED_CELLS / 2, SETTLED_CELLS);
	assert_in_range(w.ctx->settled->pending.n, SETTLED_CELLS / 2, SETTLED_CELLS);
	commit(w.ctx);
	world_close(&w);
}

static void invariant_contexts_take_none(void **state)
{
	struct world w;
	(void)state;
	setenv("ATTUNE_INVARIANT", "1", 1);
	world_open(&w, "cpu");
	unsetenv("ATTUNE_INVARIANT");
	assert_int_equal(attune_settled_commit(w.ctx), ATTUNE_UNSUPPORTED);
	assert_int_equal(attune_settled_read(w.ctx, "", 0, NULL, NULL), ATTUNE_UNSUPPORTED);
	assert_true(attune_settled_digest(w.ctx) == 0);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(changes_its_cell_and_no_other),
		cmocka_unit_test(belongs_to_the_shape),
		cmocka_unit_test(counts_beyond_the_margin),
		cmocka_unit_test(two_prefills_agree),
		cmocka_unit_test(mixed_batches_go_the_settled_way),
		cmocka_unit_test(parts_of_mixed_batches),
		cmocka_unit_test(mixed_cells_know_what_the_rules_say),
		cmocka_unit_test(any_value_gives_a_legal_plan),
		cmocka_unit_test(a_full_table_keeps_what_it_has),
		cmocka_unit_test(reports_of_many_cells_take_a_bounded_memory),
		cmocka_unit_test(invariant_contexts_take_none),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("settled plans", tests, NULL, NULL);
}
