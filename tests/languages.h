/* languages.h - a folder for what forests are emitted as, Python to read it with, and random
 * choices, prices and batches. Include after cmocka.h and synthetic.h. */
#ifndef LANGUAGES_H
#define LANGUAGES_H

#include <unistd.h>

enum { CHOICES = 14 };

static char folder[] = "/tmp/t_languages.XXXXXX";

static inline const char *in_folder(const char *name)
{
	static char path[4][256];
	static int n;
	char *p = path[n++ % 4];
	snprintf(p, sizeof path[0], "%s/%s", folder, name);
	return p;
}

static inline void write_text(const char *name, const char *text)
{
	FILE *out = fopen(in_folder(name), "w");
	assert_non_null(out);
	assert_true(fputs(text, out) >= 0);
	assert_int_equal(fclose(out), 0);
}

static inline int has_python(void)
{
	return !system("python3 --version >/dev/null 2>&1");
}

static inline void run_python(const char *name, const char *script)
{
	char command[700];
	write_text(name, script);
	snprintf(command, sizeof command, "PYTHONDONTWRITEBYTECODE=1 python3 %s %s",
		 in_folder(name), folder);
	assert_int_equal(system(command), 0);
}

static inline int below(unsigned long long *seed, int n)
{
	return (int)(next_random(seed) % (unsigned)n);
}

/* A batch of alike sequences but one, of lengths over four orders of magnitude. */
static inline int random_part(struct part *p, attune_shape *s, unsigned long long *seed)
{
	static const int heads[][2] = { { 32, 8 }, { 8, 1 }, { 16, 16 }, { 64, 8 }, { 40, 2 } };
	int32_t start[41] = { 0 }, lens[40];
	const int n = 1 + below(seed, 1 << below(seed, 6)), h = below(seed, (int)COUNT(heads));
	const int query = below(seed, 2) ? 1 : 1 + below(seed, 600);
	const int length = query + below(seed, 1 << (1 + below(seed, 15)));
	*s = llama;
	s->num_query_heads = heads[h][0];
	s->num_kv_heads = heads[h][1];
	for (int i = 0; i < n; i++) {
		start[i + 1] = start[i] + query;
		lens[i] = i ? length : length + below(seed, 20000);
	}
	const attune_batch b = { .num_seqs = n, .query_start = start, .seq_lens = lens };
	return part_make(p, PHASE_ALL, s, &b, &h200_run.device);
}

static inline void random_choices(struct forest *f, unsigned long long *seed)
{
	static const char *const names[] = { "qblock", "segmented" };
	for (f->num_choices = 0; f->num_choices < CHOICES; f->num_choices++) {
		struct choice *c = &f->choice[f->num_choices];
		c->kernel = kernel_find(BACKEND_GPU, names[f->num_choices % 2]);
		const struct space *s = c->kernel->space;
		config_default(&c->config, s);
		c->config.v[0] = s->axis[0].values[f->num_choices / 2 % s->axis[0].num_values];
		if (s->formula_axis >= 0 && f->num_choices % 4 == 1)
			c->config.v[s->formula_axis] =
			    -1 - (int)(next_random(seed) % (unsigned)s->num_formulas);
	}
}

/* Of some choices for each decision and two head sizes; some terms cost nothing. */
static inline void random_prices(struct forest *f, unsigned long long *seed)
{
	for (int d = 0; d < NUM_PRICED; d++)
		for (int id = 0; id < f->num_choices; id++)
			for (int size = 64; size <= 128 && below(seed, 3); size += 64) {
				struct selector_price *p = &f->price[f->num_prices++];
				*p = (struct selector_price){ (enum decision)d,
							      id,
							      size,
							      { 1 << below(seed, 8),
								32 << below(seed, 3),
								below(seed, 5),
								1 + below(seed, 4),
								64 * below(seed, 9),
								{ 0 } } };
				for (int i = 0; i < NUM_PRICE_TERMS; i++)
					if (below(seed, 3))
						p->price.fs[i] = (long long)next_random(seed) %
								 (price_limits[i] + 1);
			}
}

#endif
