/* SPDX-License-Identifier: Apache-2.0 */
/* basis.c - makes a header that begins from another GPU's rules.
 *
 *   own database   -> own data, basis: the incumbent's rules, the prior's name
 *   own data -reorder.c-> fresh rules: the incumbent's, with rows in the order of own times
 *   or, where own data have enough, -induction.c-> trees of their own
 *   own pass B on split "gate" -gate.c-> which groups of fresh replace the incumbent's -> header
 *
 * Everything follows from the two databases, so `attune induce` can make the header again. */
#include "basis.h"
#include "gate.h"
#include "reorder.h"
#include "harness/base/base.h"
#include "harness/store/store.h"
#include "tuner/base/base.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/induce/induce.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the databases --------------------------------------------------------------------- */
/* Looks in the folder of the own database, in the one above (own ones may lie in results/local),
 * else in results/. The caller frees it. */
static char *prior_path(const char *db_path, const char *prior)
{
	static const char *const above[] = { "", "../" };
	const char *slash = strrchr(db_path, '/');
	const int folder = slash ? (int)(slash + 1 - db_path) : 0;
	char *path;
	for (size_t i = 0; i < COUNT(above); i++) {
		if (asprintf(&path, "%.*s%s%s.sqlite", folder, db_path, above[i], prior) < 0)
			return NULL;
		if (!access(path, R_OK) && !same_file(path, db_path))
			return path;
		free(path);
	}
	return asprintf(&path, "results/%s.sqlite", prior) < 0 ? NULL : path;
}

/* Without fresh times, those of older sources are good enough for a prior. */
static struct data *load_rows(const char *path, const char *name)
{
	struct data *d = data_load(path, name);
	if (d && !d->n) {
		data_free(d);
		d = data_load_as(path, name, (struct which_rows){ .stale = 1 });
	}
	if (d && !d->n)
		complain("%s: no times of %s to begin from", path, name);
	return d;
}

static struct data *load_prior(const char *db_path, const char *name)
{
	char *path = prior_path(db_path, name);
	struct data *d = NULL;
	if (path && access(path, R_OK))
		complain(
		    "%s: cannot be read; the header began from %s, so its database must be here or "
		    "in the folder of %s",
		    path, name, db_path);
	else if (path)
		d = load_rows(path, name);
	if (d && (!d->n || !data_hash(d, path))) {
		data_free(d);
		d = NULL;
	}
	free(path);
	return d;
}

static int read_incumbent(struct forest *f, const struct store_basis *b, const char *db_path)
{
	return *b->rules ? forest_parse(f, b->rules, db_path) : forest_defaults(f, b->header);
}

/* Takes over the basis. */
static int open_with(struct inheritance *i, const char *db_path)
{
	int done = read_incumbent(&i->incumbent, &i->basis, db_path);
	if (done && *i->basis.prior) {
		i->prior = load_prior(db_path, i->basis.prior);
		done = i->prior != NULL;
	}
	if (!done)
		inheritance_close(i);
	return done;
}

int inheritance_open(struct inheritance *i, const struct data *own, const char *db_path)
{
	struct store *store = store_open(db_path, 1);
	*i = (struct inheritance){ .prior = NULL };
	const int found = store ? store_get_basis(store, own->gpu, &i->basis) : -1;
	if (store)
		store_close(store);
	return found <= 0 || open_with(i, db_path) ? found : -1;
}

int inheritance_of(struct inheritance *i, const struct store_basis *b, const char *db_path)
{
	*i = (struct inheritance){ .basis = { strdup(b->header), strdup(b->incumbent),
					      strdup(b->rules), strdup(b->prior) } };
	if (i->basis.header && i->basis.incumbent && i->basis.rules && i->basis.prior)
		return open_with(i, db_path);
	complain("%s: out of memory", db_path);
	store_basis_free(&i->basis);
	return 0;
}

int inheritance_advance(struct inheritance *i, const char *rules, struct forest *before)
{
	struct forest now = { 0 };
	char *name = strdup(i->basis.header), *text = strdup(rules);
	if (!name || !text)
		complain("%s: out of memory", i->basis.header);
	if (!name || !text || !forest_parse(&now, rules, i->basis.header)) {
		free(name);
		free(text);
		return 0;
	}
	free(i->basis.incumbent);
	free(i->basis.rules);
	i->basis.incumbent = name;
	i->basis.rules = text;
	*before = i->incumbent;
	i->incumbent = now;
	return 1;
}

void inheritance_close(struct inheritance *i)
{
	forest_free(&i->incumbent);
	data_free(i->prior);
	store_basis_free(&i->basis);
	*i = (struct inheritance){ .prior = NULL };
}

/* ---- rules ------------------------------------------------------------------------------ */
static int has_training(const struct data *d)
{
	if (!data_count_training(d))
		complain("%s has no scenarios to learn from", d->gpu);
	return data_count_training(d) > 0;
}

/* With 1,112 scenarios of an H100 and 1,161 of the H200, trees from own times alone gave 1.029 on
 * 211 held-out batches; from 150 the H100's took 1.091 in prefills and 1.045 in decodes, the
 * H200's rules 1.036 and 1.024. A CPU's trees from 103 took 1.028 in decodes, the rules of another
 * number of threads with reordered rows 1.064. */
enum { FEW = 500 };

int inheritance_learn(const struct inheritance *i, const struct data *own,
		      const struct limits *limits, struct fresh_rules *fresh)
{
	const int has_rules = i->prior && i->incumbent.num_choices;
	const int of = i->prior ? data_count_training(i->prior) : 0;
	const int beyond = has_rules ? times_beyond_rows(own, &i->incumbent) : 0;
	const int is_small = data_count_training(own) < FEW;
	struct limits with_kept = *limits;
	int done = has_training(own);
	*fresh = (struct fresh_rules){ .trees = -1 };
	with_kept.kept = i->prior && !is_small ? &i->incumbent : NULL;
	if (done && has_rules && (is_small || 4 * beyond < 3 * of))
		done = forest_reorder(&fresh->f[fresh->n++], &i->incumbent, own);
	if (done && (!has_rules || 4 * beyond >= (is_small ? 1 : 3) * of))
		done = forest_induce(&fresh->f[fresh->trees = fresh->n++], own, &with_kept);
	if (!done)
		fresh_rules_free(fresh);
	return done;
}

void fresh_rules_free(struct fresh_rules *fresh)
{
	for (int i = 0; i < fresh->n; i++)
		forest_free(&fresh->f[i]);
	fresh->n = 0;
}

static int note(struct forest *f, const struct inheritance *i, const struct gate_report *r)
{
	size_t size;
	FILE *out = open_memstream(&f->notes, &size);
	if (!out)
		return 0;
	fprintf(
	    out,
	    " *   began     from %s. In each group of rules the new ones replace the old ones if\n"
	    " *             they are faster beyond noise on %d scenarios that neither learned "
	    "from:\n",
	    *i->basis.incumbent ? i->basis.incumbent : "the kernels' defaults", r->scenarios);
	gate_print(out, r, " *   gate      ");
	if (r->scenarios)
		fputs(
		    " *             comments at leaves of old rules are copied from their header\n",
		    out);
	return !fclose(out);
}

int inheritance_judge(const struct inheritance *i, const struct data *own,
		      const struct fresh_rules *fresh, struct forest *out, struct gate_report *r)
{
	struct gate *g = gate_open(&i->incumbent, fresh);
	if (!g)
		return 0;
	const int groups = gate_judge(g, own, r);
	gate_close(g);
	if (!forest_combine(out, &i->incumbent, &fresh->f[r->fresh], groups))
		return 0;
	if (!out->num_choices)
		complain("%s: no rule is faster than the kernels' defaults beyond noise; there is "
			 "nothing to write",
			 own->gpu);
	if (out->num_choices && note(out, i, r) && forest_prove(out, own))
		return 1;
	forest_free(out);
	return 0;
}
