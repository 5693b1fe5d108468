/* load_scenarios.c - reads the scenarios of a database without their cells. */
#include "filling.h"
#include "harness/scenario/scenario.h"
#include "harness/store/store.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Scenarios measured on the GPU's newest device, chosen as store_each() does. */
static const char sql[] =
    "SELECT id, model, batch, page_size, dtype, kv_dtype, layout, seed, num_query_heads,"
    " num_kv_heads, head_size, causal, \"window\", scale, softcap, has_sinks, has_alibi,"
    " set_name, split, weight FROM scenario AS s WHERE EXISTS"
    " (SELECT 1 FROM race AS c JOIN run AS r ON r.id = c.run WHERE c.scenario = s.id AND"
    "  EXISTS (SELECT 1 FROM measurement AS m WHERE m.race = c.id) AND r.device ="
    "  (SELECT t.device FROM race AS e JOIN run AS t ON t.id = e.run JOIN device AS d ON"
    "   d.id = t.device WHERE d.gpu = '%s' AND EXISTS (SELECT 1 FROM measurement AS m WHERE"
    "   m.race = e.id) ORDER BY t.id DESC LIMIT 1))";

struct listing {
	int (*each)(void *, const struct store_cell *);
	void *arg;
};

static int dtype_named(const char *name)
{
	int t = ATTUNE_F32;
	while (t <= ATTUNE_E4M3 && strcmp(dtype_name((enum attune_dtype)t), name))
		t++;
	return t;
}

static int read_one(void *arg, int columns, const char *const *names, const char *const *cells)
{
	const struct listing *l = arg;
	struct store_cell c = { .scenario_id = strtoll(cells[0], NULL, 10),
				.model = cells[1],
				.batch = cells[2],
				.dtype = cells[4],
				.layout = cells[6],
				.seed = (unsigned long long)strtoll(cells[7], NULL, 10),
				.set = cells[17],
				.split = cells[18],
				.weight = strtod(cells[19], NULL) };
	attune_shape *h = &c.shape;
	int *const numbers[] = { &h->num_query_heads, &h->num_kv_heads, &h->head_size, &h->causal,
				 &h->window };
	(void)columns, (void)names;
	h->page_size = c.page_size = atoi(cells[3]);
	h->dtype = dtype_named(cells[4]);
	h->kv_dtype = dtype_named(cells[5]);
	for (size_t i = 0; i < COUNT(numbers); i++)
		*numbers[i] = atoi(cells[8 + i]);
	h->scale = strtof(cells[13], NULL);
	h->softcap = strtof(cells[14], NULL);
	h->has_sinks = atoi(cells[15]);
	h->has_alibi = atoi(cells[16]);
	h->has_lse = model_gives_lse(c.model);
	h->has_new_kv = 1;
	h->kv_layout = layout_kv(layout_of(c.layout));
	return l->each(l->arg, &c);
}

int scenarios_each(struct store *store, const char *gpu,
		   int (*each)(void *, const struct store_cell *), void *arg)
{
	struct listing l = { each, arg };
	char text[sizeof sql + GPU_NAME];
	snprintf(text, sizeof text, sql, gpu);
	return store_query(store, text, read_one, &l);
}
