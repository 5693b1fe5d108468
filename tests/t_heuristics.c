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

enum { MAX_HEADERS = 16 };

static struct CMUnitTest tests[MAX_HEADERS];
static char names[MAX_HEADERS][96];

/* What the library would run for a part, as text. */
static void library_text(char *text, size_t size, const struct selector *h, int id)
{
	snprintf(text, size, "%s %s", h->choices[id].kernel, h->choices[id].text);
}

static int library_legal(const struct data *d, const struct measured *m, const char *text,
			 const struct part *part)
{
	struct choice c;
	char error[160];
	if (!choice_parse(&c, d->run.device.backend, text, error, sizeof error))
		fail_msg("%s: %s", text, error);
	return !c.kernel->space->why_illegal(&c.config, &m->shape, part, &d->run.device);
}

static void compare(const struct data *d, const struct measured *m, const struct selector *h,
		    const struct selection *s, int i, int pick)
{
	char want[MAX_CHOICE_TEXT] = "nothing", got[MAX_CHOICE_TEXT];
	library_text(got, sizeof got, h, s->choice[i]);
	if (!library_legal(d, m, got, &s->part[i]))
		return; /* the library takes a default, which t_library.c tests */
	if (pick >= 0)
		choice_text(want, sizeof want, &d->choice[pick]);
	if (strcmp(want, got))
		fail_msg("%s %s: the library says %s, the header %s", m->model, m->batch_text, got,
			 want);
}

static void scenario_agrees(const struct data *d, const struct forest *f, const struct selector *h,
			    int scenario)
{
	const struct measured *m = &d->v[scenario];
	struct selection s;
	struct pick pick;
	select_choices(&s, h, &m->shape, &m->batch->view, &d->run.device);
	forest_pick(d, f, scenario, &pick);
	if (!isfinite(data_plan_time(d, scenario, &pick)))
		fail_msg("%s %s: the choice was not measured", m->model, m->batch_text);
	assert_true(s.num_parts == 1 || (pick.join && pick.prefill >= 0 && pick.decode >= 0));
	for (int i = 0; i < s.num_parts; i++)
		compare(d, m, h, &s, i,
			s.part[i].max_query > DECODE_MAX_QUERY ? pick.prefill : pick.decode);
}

static void library_says_what_the_database_says(void **state)
{
	const struct selector *h = *state;
	struct forest f;
	char db[256], header[256];
	default_paths(h->gpu, db, header);
	assert_false(selector_is_stale(h));
	struct data *d = data_load(db, h->gpu);
	assert_non_null(d);
	assert_int_equal(forest_load(&f, header), 1);
	for (int s = 0; s < d->n; s++)
		scenario_agrees(d, &f, h, s);
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
