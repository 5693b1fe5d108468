/* emit_facts.c - facts about leaves and choices that all output languages need. */
#include "writing.h"
#include "kernels/spec/plugin.h"
#include "tuner/matrix/matrix.h"
#include "tuner/tree/tree.h"

void plugin_words(const struct choice *c, char *version, char text[MAX_CHOICE_TEXT])
{
	plugin_version(version, c->kernel->plugin->version);
	config_text(text, MAX_CHOICE_TEXT, &c->config, c->kernel->space);
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
