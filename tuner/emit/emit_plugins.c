/* emit_plugins.c - writes the part of a header that names plug-ins: its rows, and the trees that say
 * where they run. The rest of the header is the same as without plug-ins. */
#include "writing.h"
#include "kernels/spec/plugin.h"
#include "tuner/forest/forest.h"
#include <stdio.h>

static void emit_words(const struct emitter *e)
{
	const char *gpu = e->f->gpu;
	fprintf(
	    e->out,
	    "/* Plug-ins: kernels that are built elsewhere. They run where the trees below name "
	    "them and\n"
	    " * attune_register_plugin got the version that was measured; attune_plugin.h says "
	    "how.\n"
	    " * Everywhere else ours run: what the functions above say of the batch.\n"
	    " *\n"
	    " *   attune_%s_prefill_plugin(f), attune_%s_decode_plugin(f)  for the sequences of "
	    "a phase; f:\n"
	    " *       their features\n"
	    " *   attune_%s_mixed_plugin(f)  for a batch with both phases; f: features of all "
	    "sequences\n"
	    " *       parts    the prefills, then the decodes, each as its function above says\n"
	    " *       a row    the plug-in runs the whole batch in one launch\n"
	    " *   ours         no plug-in\n"
	    " *\n"
	    " * Slowdowns are against the fastest of ours and the leaf's plug-ins there; next: "
	    "those of ours. */\n",
	    gpu, gpu, gpu);
}

static void emit_rows(const struct emitter *e)
{
	char text[MAX_CHOICE_TEXT], version[MOST_VERSION + 1];
	fprintf(e->out,
		"/*     id  name, plug-in, version, tunables */\n#define ATTUNE_%s_PLUGINS(PLUGIN)",
		e->upper);
	for (int i = 0; i < e->f->num_plugins; i++) {
		const struct choice *c = &e->f->plugin[i];
		plugin_words(c, version, text);
		fprintf(e->out, " \\\n\tPLUGIN(%2d, %s, %s, \"%s\", \"%s\")", i, e->plugin_name[i],
			c->kernel->name, version, text);
	}
	fputs("\n\n", e->out);
}

static void emit_enum(const struct emitter *e)
{
	const char *gpu = e->f->gpu, *upper = e->upper;
	fprintf(
	    e->out,
	    "#define ATTUNE_%s_PLUGIN_SAYS(id, name, plugin, version, tunables) %s_##name = id,\n"
	    "enum attune_%s_plugin_says {\n"
	    "\tATTUNE_%s_PLUGINS(ATTUNE_%s_PLUGIN_SAYS)\n"
	    "\t%s_ours = %d, /* no plug-in */\n"
	    "\t%s_parts = %d /* each part in turn */\n"
	    "};\n\n",
	    upper, gpu, gpu, upper, upper, gpu, SAYS_OURS, gpu, SAYS_PARTS);
}

void emit_plugins(const struct emitter *e, void (*tree)(const struct emitter *, enum decision))
{
	if (!e->f->num_plugins)
		return;
	emit_words(e);
	emit_rows(e);
	emit_enum(e);
	for (int t = NUM_DECISIONS; t < ALL_DECISIONS; t++)
		tree(e, (enum decision)t);
	fprintf(e->out, "#define ATTUNE_%s_PLUGIN_TREES", e->upper);
	for (int t = NUM_DECISIONS; t < ALL_DECISIONS; t++)
		fprintf(e->out, "%s attune_%s_%s", t > NUM_DECISIONS ? "," : "", e->f->gpu,
			decision_names[t]);
	fputs("\n\n", e->out);
}
