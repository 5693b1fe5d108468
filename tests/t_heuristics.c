/* t_heuristics.c - the committed headers, as compiled into the library, against the
 * committed databases: for every scenario that was measured the library's choice is
 * the one that the header's text names, legal, and measured. */
#include "../kernels/heuristics.h"
#include "../tuner/tuner.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { MAX_HEADERS = 16, MAX_UNKNOWN = 2 /* % */ };

static struct CMUnitTest tests[MAX_HEADERS];
static char names[MAX_HEADERS][96];

static void listed(const struct data *d, const struct selector *h, int id, struct choice *out)
{
	char text[MAX_CHOICE_TEXT], error[160];
	snprintf(text, sizeof text, "%s %s", h->choices[id].kernel, h->choices[id].text);
	if (!choice_parse(out, d->run.device.backend, text, error, sizeof error))
		fail_msg("%s: %s", text, error);
}

/* The cheapest by the header's prices, as kernels/plan.c takes it. */
static int library_cheapest(const struct data *d, const struct measured *m,
			    const struct selector *h, enum decision decision, const struct part *p,
			    struct choice *out)
{
	long long least = -1;
	for (int id = 0; id < h->num_choices; id++) {
		const struct price *price =
		    price_for(h->prices, h->num_prices, decision, id, m->shape.head_size);
		struct choice c, at;
		listed(d, h, id, &c);
		const long long cost = price ? config_cheapest(&at.config, &c.config, c.kernel, price,
							       &m->shape, p, &d->run.device)
					     : -1;
		if (cost >= 0 && (least < 0 || cost < least)) {
			least = cost;
			*out = (struct choice){ c.kernel, at.config };
		}
	}
	return least >= 0;
}

/* What the library runs for a part, with numbers only; 0: a default, which t_library.c tests. */
static int library_choice(const struct data *d, const struct measured *m, const struct selector *h,
			  const struct selection *s, int i, struct choice *out)
{
	struct choice c;
	if (s->choice[i] == SAYS_CHEAPEST)
		return library_cheapest(d, m, h, s->decision[i], &s->part[i], out);
	if (s->choice[i] < 0)
		return 0;
	listed(d, h, s->choice[i], &c);
	out->kernel = c.kernel;
	return !config_resolve(&out->config, &c.config, c.kernel, &m->shape, &s->part[i],
			       &d->run.device);
}

static void compare(const struct data *d, const struct measured *m, const struct selector *h,
		    const struct selection *s, int i, int pick)
{
	char want[MAX_CHOICE_TEXT] = "nothing", got[MAX_CHOICE_TEXT];
	struct choice c;
	if (!library_choice(d, m, h, s, i, &c))
		return;
	choice_text(got, sizeof got, &c);
	if (pick >= 0)
		choice_text(want, sizeof want, &d->choice[pick]);
	if (strcmp(want, got) && (pick >= 0 || data_find(d, &c) >= 0))
		fail_msg("%s %s: the library says %s, the header %s", m->model, m->batch_text, got,
			 want);
}

/* Whether what is picked there was measured. */
static int scenario_agrees(const struct data *d, const struct forest *f, const struct selector *h,
			   int scenario)
{
	const struct measured *m = &d->v[scenario];
	struct selection s;
	struct pick pick;
	select_choices(&s, h, &m->shape, &m->batch->view, &d->run.device);
	forest_pick(d, f, scenario, &pick);
	for (int i = 0; i < s.num_parts; i++)
		if (s.num_parts == 2 || !pick.join || !m->has[PHASE_PREFILL] ||
		    !m->has[PHASE_DECODE])
			compare(d, m, h, &s, i,
				s.decision[i] == DECIDE_PREFILL ? pick.prefill : pick.decode);
	return isfinite(data_plan_time(d, scenario, &pick));
}

static void library_says_what_the_database_says(void **state)
{
	const struct selector *h = *state;
	struct forest f;
	char db[256], header[256];
	int unknown = 0;
	default_paths(h->gpu, db, header);
	assert_false(selector_is_stale(h));
	struct data *d = data_load(db, h->gpu);
	assert_non_null(d);
	assert_int_equal(forest_load(&f, header), 1);
	for (int s = 0; s < d->n; s++)
		unknown += !scenario_agrees(d, &f, h, s);
	/* A leaf names what was measured; what is cheapest need not have been. */
	if (100 * unknown > (f.num_prices ? MAX_UNKNOWN : 0) * d->n)
		fail_msg("in %d of %d scenarios the pick was not measured", unknown, d->n);
	forest_free(&f);
	data_free(d);
}

int main(void)
{
	int n = 0;
	for (int i = 0; i < attune_num_selectors && n < MAX_HEADERS; i++) {
		const struct selector *h = &attune_selectors[i];
		snprintf(names[n], sizeof names[n], "%s: library and database agree", h->gpu);
		tests[n] = (struct CMUnitTest){ names[n], library_says_what_the_database_says, NULL,
						NULL, (void *)(uintptr_t)h };
		n++;
	}
	if (!n) {
		puts("1..0 # SKIP no header is generated");
		return 0;
	}
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("heuristics", tests, (size_t)n, NULL, NULL);
}
