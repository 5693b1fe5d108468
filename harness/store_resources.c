/* store_resources.c - the table of resources.sql, which is there from its first rows on. */
#include "store.h"

EMBED(store_resources_sql, "harness/resources.sql")

static int add(struct store *s, const struct device_info *d, const char *compiler,
	       const struct resources *r)
{
	const double *t = r->takes;
	char source[CODE_TEXT];
	store_code(source, d->backend, r->kernel->name);
	return store_number(s, ADD_RESOURCES,
			    "ssssssss"
			    "dddddddddd",
			    d->gpu, d->arch, compiler, r->kernel->name, r->flags, source,
			    outcome_name(r->outcome), *r->why ? r->why : NULL, t[TAKES_REGISTERS],
			    t[TAKES_AGPRS], t[TAKES_SGPRS], t[TAKES_SPILLS], t[TAKES_SCRATCH],
			    t[TAKES_SMEM_STATIC], t[TAKES_SMEM_DYNAMIC], t[TAKES_THREADS],
			    t[TAKES_BLOCKS], t[TAKES_WAVES]) > 0;
}

int store_resources(struct store *s, const struct device_info *d, const char *compiler,
		    const struct resources *r, int n)
{
	if (!store_begin(s))
		return 0;
	int ok = store_execute(s, store_resources_sql) || store_explain(s);
	for (int i = 0; ok && i < n; i++)
		ok = add(s, d, compiler, &r[i]);
	return store_end(s, ok);
}
