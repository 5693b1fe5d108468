/* SPDX-License-Identifier: Apache-2.0 */
/* store_settled.c - reads, writes and merges the tables of settled.sql: what the library settled by
 * timing. */
#include "handle.h"
#include "store.h"
#include "harness/base/base.h"
#include "kernels/segments.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

EMBED(store_settled_sql, "harness/store/settled.sql")

int store_has_settled(struct store *s)
{
	return (int)store_number(s, HAS_SETTLED, "");
}

/* ---- writing ------------------------------------------------------------------------------- */
static void mix_text(XXH3_state_t *h, const char *text)
{
	XXH3_64bits_update(h, text, strlen(text) + 1);
}

static void mix_number(XXH3_state_t *h, long long v)
{
	char text[32];
	snprintf(text, sizeof text, "%lld", v);
	mix_text(h, text);
}

/* A hash as an id, which is the same on any machine: 1 or more. */
static long long id_of(XXH3_state_t *h)
{
	const unsigned long long digest = XXH3_64bits_digest(h) >> 1;
	return (long long)digest + !digest;
}

/* The id of a name, which is added if new; -1 + complain. */
static long long add_name(struct store *s, XXH3_state_t *h, const char *text, const char *code)
{
	XXH3_64bits_reset(h);
	mix_text(h, text);
	mix_text(h, code);
	const long long id = id_of(h);
	return store_number(s, ADD_SETTLED_NAME, "lss", id, text, code) < 0 ? -1 : id;
}

enum { WRITER, OP, FIRST, NUM_NAMES };
struct names {
	long long of[NUM_NAMES], member[SETTLED_MEMBERS];
};

static int add_names(struct store *s, XXH3_state_t *h, const struct store_settled *r,
		     struct names *n)
{
	const char *const texts[NUM_NAMES] = {
		[WRITER] = r->writer, [OP] = r->op, [FIRST] = r->first
	};
	int ok = 1;
	for (int i = 0; ok && i < NUM_NAMES; i++)
		ok = (n->of[i] = add_name(s, h, texts[i], "")) > 0;
	for (int i = 0; ok && i < r->n; i++)
		ok = (n->member[i] = add_name(s, h, r->v[i].choice, r->v[i].code)) > 0;
	return ok;
}

static long long row_id(XXH3_state_t *h, const struct run_info *of, const struct store_settled *r,
			const struct names *n)
{
	const struct device_info *d = &of->device;
	const char *const texts[] = { d->gpu, d->name, d->arch, r->protocol, r->kind, r->batch };
	const long long numbers[] = { d->units, r->winner, r->rounds, r->settles,
				      isnan(r->again_us)
					  ? 0
					  : (long long)store_nanoseconds(r->again_us) };
	XXH3_64bits_reset(h);
	for (size_t i = 0; i < COUNT(texts); i++)
		mix_text(h, texts[i]);
	for (size_t i = 0; i < COUNT(numbers); i++)
		mix_number(h, numbers[i]);
	for (int i = 0; i < NUM_NAMES; i++)
		mix_number(h, n->of[i]);
	for (int i = 0; i < r->n; i++) {
		mix_text(h, r->v[i].way);
		mix_number(h, (long long)store_nanoseconds(r->v[i].us));
		mix_number(h, n->member[i]);
	}
	return id_of(h);
}

static int add_row(struct store *s, XXH3_state_t *h, long long device, const struct run_info *of,
		   const struct store_settled *r, int *added)
{
	struct names n;
	if (!add_names(s, h, r, &n))
		return 0;
	const long long id = row_id(h, of, r, &n);
	const long long is_new = store_number(
	    s, ADD_SETTLED, "llsllsslidii", id, device, r->protocol, n.of[WRITER], n.of[OP],
	    r->kind, r->batch, n.of[FIRST], r->winner,
	    isnan(r->again_us) ? NAN : store_nanoseconds(r->again_us), r->rounds, r->settles);
	int ok = is_new >= 0;
	for (int i = 0; ok && is_new && i < r->n; i++)
		ok = store_number(s, ADD_SETTLED_MEMBER, "lisld", id, i, r->v[i].way, n.member[i],
				  store_nanoseconds(r->v[i].us)) == 0;
	*added += is_new > 0;
	return ok;
}

int store_add_settled(struct store *s, const char *gpu, const struct store_settled *rows, int n,
		      int *added)
{
	struct run_info of;
	*added = 0;
	if (!store_device(s, gpu, &of) || !store_begin(s))
		return 0;
	const long long device = store_device_id(s, gpu);
	XXH3_state_t *h = XXH3_createState();
	if (!h)
		complain("%s: out of memory", s->path);
	int ok = h && device > 0 && (store_execute(s, store_settled_sql) || store_explain(s));
	for (int i = 0; ok && i < n; i++)
		ok = add_row(s, h, device, &of, &rows[i], added);
	XXH3_freeState(h);
	return store_end(s, ok);
}

/* Existing rows are unchanged. */
int store_merge_settled(struct store *s)
{
	const long long theirs = store_number(s, SRC_HAS_SETTLED, "");
	if (theirs <= 0)
		return theirs == 0;
	return (store_execute(s, store_settled_sql) || store_explain(s)) &&
	       store_number(s, MERGE_SETTLED_NAMES, "") == 0 &&
	       store_number(s, MERGE_SETTLED, "") == 0 &&
	       store_number(s, MERGE_SETTLED_MEMBERS, "") == 0;
}

/* ---- reading ------------------------------------------------------------------------------- */
/* Copies the texts of a row, which the next row's replace. */
struct texts {
	size_t used;
	char room[(SETTLED_MEMBERS + 1) * SETTLED_TEXT];
};

static const char *kept(struct store *s, sqlite3_stmt *st, int column, struct texts *t)
{
	char *to = t->room + t->used;
	store_copy(s, st, column, to, sizeof t->room - t->used);
	t->used += strlen(to) + (t->used + strlen(to) + 1 < sizeof t->room);
	return to;
}

static const double longest_ns = 1e15;

/* Columns in the order of SETTLED_MEMBERS_OF. */
static int read_members(struct store *s, long long id, struct store_settled *r, struct texts *t)
{
	sqlite3_stmt *st = store_rows(s, SETTLED_MEMBERS_OF, "l", id);
	int ok = st != NULL;
	t->used = 0;
	for (r->n = 0; store_next(s, st, &ok); r->n++) {
		if (r->n == SETTLED_MEMBERS || store_int(s, st, 0, 0, INT32_MAX) != r->n) {
			ok = store_damaged(s, "row %lld of 'settled' has wrong members", id);
			continue; /* ends the loop */
		}
		r->v[r->n].way = kept(s, st, 1, t);
		r->v[r->n].choice = kept(s, st, 2, t);
		r->v[r->n].code = kept(s, st, 3, t);
		r->v[r->n].us = store_real(s, st, 4, 1, longest_ns) / 1e3;
	}
	if (ok && r->winner >= r->n)
		ok = store_damaged(s, "row %lld of 'settled' has no member %d", id, r->winner);
	return ok;
}

/* Columns in the order of SETTLED_OF. */
static void read_row(struct store *s, sqlite3_stmt *st, struct store_settled *r)
{
	*r = (struct store_settled){ .protocol = store_text(s, st, 1),
				     .writer = store_text(s, st, 2),
				     .op = store_text(s, st, 3),
				     .kind = store_text(s, st, 4),
				     .batch = store_text(s, st, 5),
				     .first = store_text(s, st, 6),
				     .winner = (int)store_int(s, st, 7, 0, INT32_MAX),
				     .again_us = store_maybe(s, st, 8, 1, longest_ns) / 1e3,
				     .rounds = (int)store_int(s, st, 9, 1, INT32_MAX),
				     .settles = (int)store_int(s, st, 10, 0, INT32_MAX) };
}

static int each_of_device(struct store *s, long long device,
			  int (*each)(void *, const struct store_settled *), void *arg)
{
	struct texts texts;
	struct store_settled row;
	sqlite3_stmt *st = store_rows(s, SETTLED_OF, "l", device);
	int ok = st != NULL, wants = 1;
	while (wants && store_next(s, st, &ok)) {
		const long long id = store_int(s, st, 0, 1, INT64_MAX);
		read_row(s, st, &row);
		ok = read_members(s, id, &row, &texts);
		wants = ok && each(arg, &row);
	}
	sqlite3_reset(st);
	return ok;
}

int store_each_settled(struct store *s, const char *gpu,
		       int (*each)(void *, const struct store_settled *), void *arg)
{
	const int has = store_has_settled(s);
	const long long device = has > 0 ? store_device_id(s, gpu) : has;
	return device > 0 ? each_of_device(s, device, each, arg) : device == 0;
}

static int pass_over(void *arg, const struct store_settled *row)
{
	(void)arg, (void)row;
	return 1;
}

int store_can_read_settled(struct store *s, long long device)
{
	const int has = store_has_settled(s);
	return has > 0 ? each_of_device(s, device, pass_over, NULL) : has == 0;
}
