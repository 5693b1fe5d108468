/* emit_text.c - writes a forest as Python and text, and selects the output language. All languages
 * hold the choices and trees of the header.
 *
 * json, schema "attune-heuristics-6":
 *
 *   { "schema", "gpu", "arch", "database": texts,
 *     "rules": text,                        hash of the features and segment costs
 *     "kernels": { NAME: text },            hashes of the tunables of the kernels that choices run
 *     "features": [names],                  all integers, 0 or more
 *     "choices": [{ "id": number, "kernel": text, "text": all tunables as text,
 *                   "tunables": { NAME: number or null },
 *                   "formula": null, or the rule for the tunable that is null:
 *                     { "axis": NAME, "slots", "start", "launch", "merge": numbers,
 *                       "values": [numbers] }; for SEGMENTS=fitted only axis and values }],
 *     "segments": [{ "id", "head_size", "rows", "tile", "heads", "slots", "start", "path", "split",
 *                    "segments", "merge": numbers }],    costs for SEGMENTS=fitted
 *     "prefill": NODE, "decode": NODE, "overlap": NODE, "early": NODE }
 *   and of rules with plug-ins
 *     "plugins": [{ "id": number, "plugin": name, "version": text, "text": tunables as text }],
 *     "prefill_plugin": NODE, "decode_plugin": NODE, "mixed_plugin": NODE
 *   NODE: { "feature": name, "at_most": number, "below": NODE, "above": NODE }, or
 *         { "action": number, "scenarios": number, "guarded": null or text }, and with
 *         scenarios "slowdown", "p95", "remark"
 *
 * Actions:
 *   prefill, decode  an id, or -1: the kernels' defaults
 *   overlap          for batches with both parts: -1: one after the other; -3: on two streams; an
 *                    id: a fused kernel runs the whole batch; any other choice runs the prefills
 *                    while the decodes run on a second stream
 *   early            the value of the kernel's axis EARLY if the caller lets launches begin early;
 *                    -1: the choice's own value
 *   ..._plugin       an id of plugins; -1: what the trees above say; for mixed_plugin an id runs the
 *                    whole batch in one launch, and -2: the parts in turn, each by its tree here
 * guarded: a rule that the action may break in that leaf. A reader that does not check rules takes
 * the defaults there. The header's comment has the formulas.
 *
 * python: a module of pure functions. text: the form that kernels/select/rules_file.c reads. */
#include "emit.h"
#include "writing.h"
#include "kernels/select/selector.h"
#include "kernels/spec/plugin.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Python ---------------------------------------------------------------------------------- */
/* {"BLOCK_M": 16, ...}, with None for the tunable that a formula works out. */
static void tunables(FILE *out, const struct choice *c)
{
	const struct space *s = c->kernel->space;
	for (int i = 0; i < s->num_axes; i++) {
		fprintf(out, "%s\"%s\": ", i ? ", " : "{", s->axis[i].name);
		if (i == worked_out_axis(c))
			fputs("None", out);
		else
			fprintf(out, "%d", c->config.v[i]);
	}
	fputs(s->num_axes ? "}" : "{}", out);
}

static void formula(FILE *out, const struct choice *c)
{
	const int axis = worked_out_axis(c);
	if (axis < 0) {
		fputs("None", out);
		return;
	}
	const struct axis *a = &c->kernel->space->axis[axis];
	const struct formula *f = formula_of(c);
	fprintf(out, "{\"axis\": \"%s\", ", a->name);
	if (f)
		fprintf(out, "\"slots\": %d, \"start\": %d, \"launch\": %d, \"merge\": %d, ",
			f->slots, f->start, f->launch, f->merge);
	fputs("\"values\": [", out);
	for (int i = 0; i < a->num_values; i++)
		fprintf(out, "%s%d", i ? ", " : "", a->values[i]);
	fputs("]}", out);
}

static void python_costs(FILE *out, const struct forest *f, const struct selector_costs *row)
{
	const struct choice *choice = &f->choice[row->id];
	const struct segment_costs *c = &row->costs;
	struct block_shape block;
	block_shape_of(&block, &choice->config, choice->kernel);
	fprintf(
	    out,
	    "{\"id\": %d, \"head_size\": %d, \"rows\": %d, \"tile\": %d, \"heads\": %d, \"slots\": "
	    "%d, \"start\": %d,\n   \"path\": %lld, \"split\": %lld, \"segments\": %lld, "
	    "\"merge\": %lld}",
	    row->id, row->head_size, block.rows, block.tile, block.heads, c->slots, c->start,
	    c->path, c->split, c->segments, c->merge);
}

static void python_node(FILE *out, const struct tree *t, int node, int depth)
{
	const struct node *v = &t->v[node];
	fprintf(out, "%*s", 4 * depth, "");
	if (v->feature < 0) {
		fprintf(out, "return %d", v->action);
		if (v->support)
			fprintf(out, "  # %d scenario%s", v->support, v->support == 1 ? "" : "s");
		if (has_figures(v))
			fprintf(out, ", %.3f", mean_slowdown(v->cost, v->weight));
		if (v->guarded)
			fprintf(out, "; unless: %s", v->guarded);
		putc('\n', out);
		return;
	}
	fprintf(out, "if f[\"%s\"] <= %lld:\n", feature_names[v->feature], v->threshold);
	python_node(out, t, v->below, depth + 1);
	fprintf(out, "%*selse:\n", 4 * depth, "");
	python_node(out, t, v->above, depth + 1);
}

static const char python_resolve[] =
    "def resolve_segments(formula, blocks, mean, longest, units, resident=1, legal=None):\n"
    "    \"\"\"The value of formula[\"axis\"] for a batch, all in integers.\n"
    "\n"
    "    blocks    blocks of the launch at one segment\n"
    "    mean      min(f[\"mean_seq\"], f[\"keys_per_query\"])\n"
    "    longest   f[\"max_seq\"]\n"
    "    units     f[\"units\"]: SMs, or threads\n"
    "    resident  blocks that fit the shared memory of a unit; used if formula[\"slots\"] is 0\n"
    "    legal     the legal ones among formula[\"values\"]; None: all are\n"
    "\n"
    "    The value with the least estimate wins; of equal estimates the smallest value.\n"
    "    \"\"\"\n"
    "    at_once = units * (formula[\"slots\"] or resident)\n"
    "\n"
    "    def estimate(v):\n"
    "        waves = (blocks * v + at_once - 1) // at_once\n"
    "        return (waves * (mean // v + formula[\"start\"]) + (longest - mean) // v\n"
    "                + (formula[\"launch\"] if v > 1 else 0) + formula[\"merge\"] * v)\n"
    "\n"
    "    return min(formula[\"values\"] if legal is None else legal,\n"
    "               key=lambda v: (estimate(v), v))\n";

/* Follows kernels/segments.h line by line. */
static const char python_fitted[] =
    "def segments_cost(costs, f, v):\n"
    "    \"\"\"The cost of v segments in fs. costs: a row of SEGMENTS.\"\"\"\n"
    "    def parts(n, of):\n"
    "        return -(-n // of)\n"
    "\n"
    "    tile, seqs, tokens = costs[\"tile\"], f[\"num_seqs\"], f[\"query_tokens\"]\n"
    "    packed = min(costs[\"heads\"] or f[\"group\"], f[\"group\"])\n"
    "    block_q = max(costs[\"rows\"] // packed, 1)\n"
    "    blocks, mean = seqs, f[\"keys_per_query\"]\n"
    "    if f[\"max_query\"] > block_q:\n"
    "        mean += block_q // 2\n"
    "        blocks = max(seqs, parts(2 * tokens + seqs * (block_q - 1), 2 * block_q))\n"
    "        if f[\"mean_query\"] == f[\"max_query\"]:\n"
    "            blocks = seqs * parts(f[\"max_query\"], block_q)\n"
    "    blocks *= f[\"num_kv_heads\"] * parts(f[\"group\"], min(packed, costs[\"rows\"]))\n"
    "    longest = min(f[\"max_seq\"], f[\"window\"] + block_q)\n"
    "    mean = parts(parts(min(mean, longest), tile) * tile, v)\n"
    "    longest = parts(parts(longest, tile), v) * tile\n"
    "    slots, n = f[\"units\"] * costs[\"slots\"], blocks * v\n"
    "    one, more = mean + costs[\"start\"], max(longest - mean, 0)\n"
    "    path = longest + costs[\"start\"]\n"
    "    if n > slots:\n"
    "        idle = parts(n, slots) * slots - n\n"
    "        lacks = idle * one * one // max(one + 4 * more, 1)\n"
    "        tail = more if f[\"max_query\"] <= 8 else more * slots // (4 * n)\n"
    "        path = max((one * n + lacks) // slots + tail, path)\n"
    "    cost = costs[\"path\"] * min(path, 1 << 27)\n"
    "    if v > 1:\n"
    "        rows = min(tokens * f[\"num_query_heads\"] * v, 1 << 27)\n"
    "        cost += costs[\"split\"] + costs[\"segments\"] * v + costs[\"merge\"] * rows\n"
    "    return cost\n"
    "\n"
    "\n"
    "def fitted_segments(id, f, legal):\n"
    "    \"\"\"The value among `legal` with the least cost for choice `id`; of equal costs the\n"
    "    smallest. None: SEGMENTS has no row for the choice.\"\"\"\n"
    "    rows = sorted((row for row in SEGMENTS if row[\"id\"] == id), key=lambda row: "
    "row[\"head_size\"])\n"
    "    row = next((r for r in rows if r[\"head_size\"] >= f[\"head_size\"]), rows[-1] if rows "
    "else "
    "None)\n"
    "    return min(legal, key=lambda v: (segments_cost(row, f, v), v)) if row else None\n";

static void python_plugins(FILE *out, const struct forest *f)
{
	char text[MAX_CHOICE_TEXT], version[MOST_VERSION + 1];
	if (!f->num_plugins)
		return;
	fputs("\n\n"
	      "# (plug-in, version, tunables). prefill_plugin, decode_plugin and mixed_plugin say "
	      "where these\n"
	      "# run: an index into PLUGINS, or -1: what the functions without plug-ins say. For a "
	      "batch with\n"
	      "# prefills and decodes ask mixed_plugin: an index runs it in one launch, and for -2 "
	      "its parts\n"
	      "# run in turn, each as its own function says.\n"
	      "PLUGINS = [\n",
	      out);
	for (int i = 0; i < f->num_plugins; i++) {
		plugin_words(&f->plugin[i], version, text);
		fprintf(out, "    (\"%s\", \"%s\", ", f->plugin[i].kernel->name, version);
		tunables(out, &f->plugin[i]);
		fputs("),\n", out);
	}
	fputs("]\n", out);
}

static int emit_python(FILE *out, const struct forest *f, const struct data *d)
{
	fprintf(
	    out,
	    "\"\"\"Generated by `attune induce --gpu %s --emit python`: do not edit.\n\n"
	    "%s, %s; database %s.\n"
	    "f maps the names of kernels/features.def to integers. The functions return:\n\n"
	    "  prefill, decode  an index into CHOICES, or -1: the kernels' defaults\n"
	    "  overlap          for a batch with prefills and decodes:\n"
	    "                   -1: the prefills, then the decodes\n"
	    "                   -3: both at the same time, on two streams\n"
	    "                   an index into CHOICES: a fused kernel runs the whole batch; any\n"
	    "                   other choice runs the prefills, the decodes run on a second "
	    "stream\n"
	    "  early            the value of the kernel's tunable EARLY if the caller lets "
	    "launches\n"
	    "                   begin early; -1: the choice's own value\n\n"
	    "A choice is (kernel, tunables, formula). One tunable may be None. resolve_segments\n"
	    "computes it by the formula, or fitted_segments if the formula has only axis and "
	    "values.\n"
	    "A leaf with `unless: RULE` may break that rule of its choice; take the defaults "
	    "there.\n"
	    "\"\"\"\n\n",
	    f->gpu, d->run.device.name, d->run.device.arch, d->hash);
	fprintf(out, "GPU = \"%s\"\nRULES = 0x%016llx\nKERNELS = {\n", f->gpu, rules_hash());
	for (const struct kernel *k = NULL; (k = forest_next_kernel(f, k)) != NULL;)
		fprintf(out, "    \"%s\": 0x%016llx,\n", k->name, kernel_hash(k));
	fputs("}\nCHOICES = [\n", out);
	for (int i = 0; i < f->num_choices; i++) {
		const struct choice *c = &f->choice[i];
		fprintf(out, "    (\"%s\", ", c->kernel->name);
		tunables(out, c);
		fputs(worked_out_axis(c) < 0 ? ", " : ",\n     ", out);
		formula(out, c);
		fputs("),\n", out);
	}
	fputs("]\nSEGMENTS = [\n", out);
	for (int i = 0; i < f->num_costs; i++) {
		fputs("  ", out);
		python_costs(out, f, &f->costs[i]);
		fputs(",\n", out);
	}
	fprintf(out, "]\n\n\n%s\n\n%s", python_resolve, python_fitted);
	python_plugins(out, f);
	for (int t = 0; t < (f->num_plugins ? ALL_DECISIONS : NUM_DECISIONS); t++) {
		fprintf(out, "\n\ndef %s(f):\n", decision_names[t]);
		python_node(out, &f->tree[t], 0, 1);
	}
	return !ferror(out);
}

/* ---- text ------------------------------------------------------------------------------------ */
static void text_node(FILE *out, const struct forest *f, enum decision decision, int node,
		      int depth)
{
	const struct tree *t = &f->tree[decision];
	const struct node *v = &t->v[node];
	fprintf(out, "%*s", 2 * depth, "");
	if (v->feature < 0) {
		if (v->action < SAYS_DEFAULTS)
			fprintf(out, "return %s", says_word(decision, v->action));
		else
			fprintf(out, "return %d", v->action);
		if (has_figures(v))
			fprintf(out, " # %d scenario%s, %.3f", v->support,
				v->support == 1 ? "" : "s", mean_slowdown(v->cost, v->weight));
		putc('\n', out);
		return;
	}
	fprintf(out, "if %s <= %lld\n", feature_names[v->feature], v->threshold);
	text_node(out, f, decision, v->below, depth + 1);
	text_node(out, f, decision, v->above, depth + 1);
}

static int emit_text(FILE *out, const struct forest *f, const struct data *d)
{
	char text[MAX_CHOICE_TEXT], version[MOST_VERSION + 1];
	fprintf(out,
		"# Generated by `attune induce --gpu %s --emit text` from database %s.\n"
		"# Edit it, and load it with ATTUNE_HEURISTICS=FILE.\n"
		"attune heuristics 4\ngpu %.*s\nrules 0x%016llx\n",
		f->gpu, d->hash, gpu_length(f->gpu), f->gpu, rules_hash());
	for (const struct kernel *k = NULL; (k = forest_next_kernel(f, k)) != NULL;)
		fprintf(out, "kernel %s 0x%016llx\n", k->name, kernel_hash(k));
	putc('\n', out);
	for (int i = 0; i < f->num_choices; i++) {
		const struct choice *c = &f->choice[i];
		config_text(text, sizeof text, &c->config, c->kernel->space);
		fprintf(out, "choice %d %s %s\n", i, c->kernel->name, text);
	}
	for (int i = 0; i < f->num_costs; i++) {
		const struct selector_costs *row = &f->costs[i];
		const struct segment_costs *c = &row->costs;
		fprintf(out, "segments %d %d %d %d %lld %lld %lld %lld\n", row->id, row->head_size,
			c->slots, c->start, c->path, c->split, c->segments, c->merge);
	}
	for (int i = 0; i < f->num_plugins; i++) {
		plugin_words(&f->plugin[i], version, text);
		fprintf(out, "plugin %d %s %s %s\n", i, f->plugin[i].kernel->name, version, text);
	}
	for (int t = 0; t < ALL_DECISIONS; t++) {
		if (t < NUM_DECISIONS ? t >= forest_decisions(f) : !f->num_plugins)
			continue;
		fprintf(out, "\ntree %s\n", decision_names[t]);
		text_node(out, f, (enum decision)t, 0, 1);
	}
	return !ferror(out);
}

/* ---- output language ------------------------------------------------------------------------- */
static const struct {
	const char *word;
	int (*emit)(FILE *, const struct forest *, const struct data *);
} languages[] = { { "json", emit_json }, { "python", emit_python }, { "text", emit_text } };

char *forest_emit_as(const char *language, const struct forest *f, const struct data *d)
{
	char *text = NULL;
	size_t size, i = 0;
	if (!strcmp(language, "c"))
		return forest_emit(f, d);
	while (i < COUNT(languages) && strcmp(languages[i].word, language))
		i++;
	FILE *out = i < COUNT(languages) ? open_memstream(&text, &size) : NULL;
	if (!out)
		return NULL;
	const int done = languages[i].emit(out, f, d);
	if (fclose(out) || !done) {
		free(text);
		return NULL;
	}
	return text;
}
