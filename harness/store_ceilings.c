/* store_ceilings.c - the table `ceiling`: written whole with its run, read back of the newest. */
#include "store_ceilings.h"
#include "store.h"

int store_ceilings(struct store *s, long long run, const struct ceiling *c, int n)
{
	int ok = store_begin(s);
	if (!ok)
		return 0;
	for (int i = 0; ok && i < n; i++)
		ok = store_number(s, ADD_CEILING, "lssds", run, c[i].name, c[i].detail, c[i].value,
				  c[i].unit) > 0;
	return store_end(s, ok);
}

int store_each_ceiling(struct store *s, const char *gpu,
		       int (*each)(void *, const struct ceiling *), void *arg)
{
	sqlite3_stmt *st = store_rows(s, CEILINGS, "s", gpu);
	int rc = st ? SQLITE_ROW : SQLITE_ERROR;
	while (rc == SQLITE_ROW && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		const struct ceiling c = { .name = store_text(s, st, 0),
					   .detail = store_text(s, st, 1),
					   .value = store_real(s, st, 2, 0, 1e12),
					   .unit = store_text(s, st, 3) };
		if (s->is_damaged || !each(arg, &c))
			rc = SQLITE_DONE;
	}
	if (st && rc != SQLITE_DONE)
		store_explain(s);
	sqlite3_reset(st);
	return rc == SQLITE_DONE && !s->is_damaged;
}
