/* SPDX-License-Identifier: Apache-2.0 */
/* emit_facts.c - facts about leaves and choices that all output languages need; and the check of
 * texts that a header repeats. */
#include "writing.h"
#include "harness/base/base.h"
#include "harness/base/text_rule.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include "tuner/data/data.h"
#include "tuner/matrix/matrix.h"
#include "tuner/tree/tree.h"

/* These texts stand in comments and strings of a header, or are parts of identifiers. */
int texts_fit(const struct forest *f, const struct data *d)
{
	const struct run_info *run = &d->run;
	const struct {
		const char *what;
		enum text_rule rule;
		const char *text;
	} texts[] = {
		{ "name", TEXT_WORD, f->gpu },
		{ "device", TEXT_COMMENT, run->device.name },
		{ "architecture", TEXT_NAME, run->device.arch },
		{ "driver", TEXT_COMMENT, run->device.driver },
		{ "toolkit", TEXT_COMMENT, run->toolkit },
		{ "database", TEXT_HEX, d->hash },
		{ "protocol", TEXT_NAME, d->protocol },
	};
	const char *splits[MAX_SPLITS];
	for (size_t i = 0; i < COUNT(texts); i++)
		if (!text_keeps(texts[i].rule, texts[i].text)) {
			complain("%s: its %s is \"%.60s\"; in a header it must be %s", d->gpu,
				 texts[i].what, texts[i].text, text_rule_says(texts[i].rule));
			return 0;
		}
	for (int i = data_splits(d, splits) - 1; i >= 0; i--)
		if (!text_keeps(TEXT_NAME, splits[i])) {
			complain("%s: a split is \"%.60s\"; in a header it must be %s", d->gpu,
				 splits[i], text_rule_says(TEXT_NAME));
			return 0;
		}
	if (*f->gpu >= '0' && *f->gpu <= '9')
		complain("%s: the name of a header's GPU must begin with a letter", f->gpu);
	return *f->gpu < '0' || *f->gpu > '9';
}

int has_figures(const struct node *v)
{
	return v->support && v->weight && v->cost < FORBIDDEN_SUM;
}

int worked_out_axis(const struct choice *c)
{
	const struct space *s = c->kernel->space;
	return config_is_formula(&c->config, s) || config_is_fitted(&c->config, s) ? s->formula_axis
										   : -1;
}

const struct formula *formula_of(const struct choice *c)
{
	const struct space *s = c->kernel->space;
	return config_is_formula(&c->config, s) ? &s->formulas[-1 - c->config.v[s->formula_axis]]
						: NULL;
}
