/* SPDX-License-Identifier: Apache-2.0 */
/* languages.h - a folder for emitted forests, random choices and segment costs. Include after cmocka.h and synthetic.h. */
#ifndef TESTS_LIBRARY_LANGUAGES_H
#define TESTS_LIBRARY_LANGUAGES_H

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

static inline int below(unsigned long long *seed, int n)
{
	return (int)(next_random(seed) % (unsigned)n);
}

/* Half of the choices are of qblock. Of the others half have a formula; the rest lay out Q
 * blocks in three ways and have SEGMENTS=fitted. */
static inline void random_choices(struct forest *f, unsigned long long *seed)
{
	static const char *const cut[] = { "segmented", "ring", "warpgroup" };
	for (f->num_choices = 0; f->num_choices < CHOICES; f->num_choices++) {
		const int i = f->num_choices, is_fitted = i % 4 == 3;
		struct choice *c = &f->choice[i];
		c->kernel =
		    kernel_find(BACKEND_GPU, i % 2 ? cut[is_fitted * (i / 4 % 3)] : "qblock");
		const struct space *s = c->kernel->space;
		config_default(&c->config, s);
		if (is_fitted) {
			c->config.v[s->formula_axis] = SEGMENTS_FITTED;
			continue;
		}
		c->config.v[0] = s->axis[0].values[i / 2 % s->axis[0].num_values];
		if (s->formula_axis >= 0)
			c->config.v[s->formula_axis] =
			    -1 - (int)(next_random(seed) % (unsigned)s->num_formulas);
	}
}

static inline long long random_cost(unsigned long long *seed, long long most)
{
	const long long bits = (long long)next_random(seed) << 31 | next_random(seed);
	return below(seed, 3) ? bits % (most + 1) : 0;
}

/* Of two head sizes, of which one choice lacks one; some costs are nothing. The first row is of the
 * path alone, so that several values cost the same. */
static inline void random_costs(struct forest *f, unsigned long long *seed)
{
	for (int id = 3; id < f->num_choices; id += 4)
		for (int size = 64; size <= 128; size *= 2) {
			struct segment_costs c = { .slots = 1 + below(seed, 4),
						   .start = 64 * below(seed, 9) };
			c.path = f->num_costs ? random_cost(seed, MOST_OF_MANY) : 1000;
			c.split = f->num_costs ? random_cost(seed, MOST_OF_FEW) : 0;
			c.segments = f->num_costs ? random_cost(seed, MOST_OF_FEW) : 0;
			c.merge = f->num_costs ? random_cost(seed, MOST_OF_MANY) : 0;
			if (id != 7 || size != 64)
				f->costs[f->num_costs++] = (struct selector_costs){ id, size, c };
		}
}

static inline void same_list(const struct forest *f, const struct selector_costs *v, int n)
{
	assert_int_equal(n, f->num_costs);
	for (int i = 0; i < n; i++) {
		assert_int_equal(v[i].id, f->costs[i].id);
		assert_int_equal(v[i].head_size, f->costs[i].head_size);
		assert_memory_equal(&v[i].costs, &f->costs[i].costs, sizeof v->costs);
	}
}

#endif
