/* store_settled.c - reads, writes and merges tables `settled` and `settled_member` (settled.sql): what the
 * library settled by timing. */
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

static void mix_number(XXH3_state_t *h, double v)
{
	char text[32];
	snprintf(text, sizeof text, "%.0f", v);
	mix_text(h, text);
}

/* The same on any machine, and 1 or more. 0: out of memory. */
static long long row_id(const struct run_info *of, const struct store_settled *r)
{
	const struct device_info *d = &of->device;
	const char *const texts[] = { d->gpu,     d->name,  d->arch,       r->protocol,
				      r->version, r->rules, r->conditions, r->op,
				      r->kind,    r->batch, r->first };
	XXH3_state_t *h = XXH3_createState();
	if (!h || XXH3_64bits_reset(h) != XXH_OK) {
		XXH3_freeState(h);
		return 0;
	}
	for (size_t i = 0; i < COUNT(texts); i++)
		mix_text(h, texts[i]);
	mix_number(h, d->units);
	mix_number(h, r->winner);
	mix_number(h, r->rounds);
	mix_number(h, r->settles);
	mix_number(h, isnan(r->again_us) ? 0 : store_nanoseconds(r->again_us));
	for (int i = 0; i < r->n; i++) {
		mix_text(h, r->v[i].way);
		mix_text(h, r->v[i].choice);
		mix_text(h, r->v[i].code);
		mix_number(h, store_nanoseconds(r->v[i].us));
	}
	const unsigned long long digest = XXH3_64bits_digest(h) >> 1;
	XXH3_freeState(h);
	return (long long)digest + !digest;
}

static int add_row(struct store *s, long long device, const struct run_info *of,
		   const struct store_settled *r, int *added)
{
	const long long id = row_id(of, r);
	if (!id) {
		complain("%s: out of memory", s->path);
		return 0;
	}
	const long long is_new = store_number(
	    s, ADD_SETTLED, "llssssssssidii", id, device, r->protocol, r->version, r->rules,
	    r->conditions, r->op, r->kind, r->batch, r->first, r->winner,
	    isnan(r->again_us) ? NAN : store_nanoseconds(r->again_us), r->rounds, r->settles);
	int ok = is_new >= 0;
	for (int i = 0; ok && is_new && i < r->n; i++)
		ok = store_number(s, ADD_SETTLED_MEMBER, "lisssd", id, i, r->v[i].way,
				  r->v[i].choice, r->v[i].code, store_nanoseconds(r->v[i].us)) == 0;
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
	int ok = device > 0 && (store_execute(s, store_settled_sql) || store_explain(s));
	for (int i = 0; ok && i < n; i++)
		ok = add_row(s, device, &of, &rows[i], added);
	return store_end(s, ok);
}

/* Existing rows are unchanged. */
int store_merge_settled(struct store *s)
{
	const long long theirs = store_number(s, SRC_HAS_SETTLED, "");
	if (theirs <= 0)
		return theirs == 0;
	return (store_execute(s, store_settled_sql) || store_explain(s)) &&
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
				     .version = store_text(s, st, 2),
				     .rules = store_text(s, st, 3),
				     .conditions = store_text(s, st, 4),
				     .op = store_text(s, st, 5),
				     .kind = store_text(s, st, 6),
				     .batch = store_text(s, st, 7),
				     .first = store_text(s, st, 8),
				     .winner = (int)store_int(s, st, 9, 0, INT32_MAX),
				     .again_us = store_maybe(s, st, 10, 1, longest_ns) / 1e3,
				     .rounds = (int)store_int(s, st, 11, 1, INT32_MAX),
				     .settles = (int)store_int(s, st, 12, 1, INT32_MAX) };
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
