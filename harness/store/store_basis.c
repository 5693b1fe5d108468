/* SPDX-License-Identifier: Apache-2.0 */
/* store_basis.c - reads and writes table `basis` (basis.sql): the rules that a device's header
 * started from. */
#include "handle.h"
#include "store.h"
#include "harness/base/base.h"
#include "kernels/select/selector.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

EMBED(store_basis_sql, "harness/store/basis.sql")

int store_has_basis(struct store *s)
{
	return (int)store_number(s, HAS_BASIS, "");
}

int store_set_basis(struct store *s, const struct store_basis *b)
{
	char gpu[GPU_NAME];
	snprintf(gpu, sizeof gpu, "%.*s", gpu_length(b->header), b->header);
	const long long device = store_device_id(s, gpu);
	if (device == 0)
		complain("%s: holds no run of %s, whose header '%s' would be", s->path, gpu,
			 b->header);
	if (device <= 0 || !store_begin(s))
		return 0;
	const int ok = (store_execute(s, store_basis_sql) || store_explain(s)) &&
		       store_number(s, SET_BASIS, "lssss", device, b->header, b->incumbent,
				    b->rules, b->prior) > 0;
	return store_end(s, ok);
}

static char *copied(struct store *s, sqlite3_stmt *st, int column)
{
	char *text = strdup(store_text(s, st, column));
	if (!text)
		complain("%s: out of memory", s->path);
	return text;
}

int store_get_basis(struct store *s, const char *header, struct store_basis *out)
{
	char gpu[GPU_NAME];
	snprintf(gpu, sizeof gpu, "%.*s", gpu_length(header), header);
	*out = (struct store_basis){ 0 };
	const long long device = store_device_id(s, gpu);
	const int has = device > 0 ? store_has_basis(s) : (int)device;
	if (has <= 0)
		return has;
	sqlite3_stmt *st = store_rows(s, GET_BASIS, "ls", device, header);
	const int rc = st ? sqlite3_step(st) : SQLITE_ERROR;
	int found = rc == SQLITE_ROW;
	if (found) {
		char **const texts[] = { &out->header, &out->incumbent, &out->rules, &out->prior };
		for (size_t i = 0; i < COUNT(texts); i++)
			*texts[i] = copied(s, st, (int)i);
		if (!out->header || !out->incumbent || !out->rules || !out->prior || s->is_damaged)
			found = -1;
	} else if (st && rc != SQLITE_DONE) {
		store_explain(s);
	}
	sqlite3_reset(st);
	if (found < 0)
		store_basis_free(out);
	return rc == SQLITE_ROW || rc == SQLITE_DONE ? found : -1;
}

void store_basis_free(struct store_basis *b)
{
	free(b->header);
	free(b->incumbent);
	free(b->rules);
	free(b->prior);
	*b = (struct store_basis){ 0 };
}

int store_drop_basis(struct store *s)
{
	return store_execute(s, "DROP TABLE IF EXISTS basis") || store_explain(s);
}

/* Existing rows are unchanged. */
int store_merge_basis(struct store *s)
{
	const long long theirs = store_number(s, SRC_HAS_BASIS, "");
	if (theirs <= 0)
		return theirs == 0;
	return (store_execute(s, store_basis_sql) &&
		store_execute(
		    s,
		    "INSERT OR IGNORE INTO main.basis SELECT d.id, b.header, b.incumbent, b.rules,"
		    " b.prior FROM src.basis AS b JOIN src.device AS o ON o.id = b.device"
		    " JOIN main.device AS d"
		    " ON (d.gpu, d.name, d.arch, d.units, d.memory_gib, d.machine)"
		    "  = (o.gpu, o.name, o.arch, o.units, o.memory_gib, o.machine)")) ||
	       store_explain(s);
}
