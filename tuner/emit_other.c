/* emit_other.c - a forest for readers other than a C compiler. All hold what the
 * header holds of choices and trees.
 *
 * json, schema "attune-heuristics-5":
 *
 *   { "schema", "gpu", "arch", "database": texts,
 *     "rules": text,                        hash of the features and price terms
 *     "kernels": { NAME: text },            hashes of the tunables of the kernels that choices run
 *     "features": [names],                  all integers, 0 or more
 *     "choices": [{ "id": number, "kernel": text, "text": all tunables as text,
 *                   "tunables": { NAME: number or null },
 *                   "formula": null, or what the null among them is worked out by:
 *                     { "axis": NAME, "slots", "start", "launch", "merge": numbers,
 *                       "values": [numbers] } }],
 *     "prices": [{ "decision": name, "id": number, "head_size": number, "rows", "tile",
 *                  "heads", "slots", "start": numbers, "axis": NAME or null, "values": [numbers],
 *                  "fs": { term: number } }],
 *     "prefill": NODE, "decode": NODE, "overlap": NODE, "early": NODE }
 *   NODE: { "feature": name, "at_most": number, "below": NODE, "above": NODE }, or
 *         { "action": number, "scenarios": number, "guarded": null or text }, and with
 *         scenarios "slowdown", "p95", "remark"
 *
 * An action of prefill and decode is an id, -1 for the kernels' defaults, or -2 for the
 * choice of least estimate among those with a price for that decision, its axis at that one
 * of the values (kernels/price.h has the estimate); of overlap, asked of batches with both parts,
 * -1 (one after the other), -3 (side by side on two streams), -4 (one launch over the whole batch
 * by the prefill choice) or an id (that for the prefill part, side by side; of a fused kernel, for
 * the whole batch); of early, asked of a part whose choice has an axis EARLY, its value where the caller lets the
 * launch begin early, or -1 (as the choice has it).
 * guarded: a rule that the action may break in that leaf; who has no run-time check
 * takes the defaults there. The formula is in the header's comment.
 *
 * python: the same as a module of pure functions. text: as kernels/override.c reads it. */
#include "../kernels/heuristics.h"
#include "early.h"
#include "emit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int has_figures(const struct node *v)
{
	return v->support && v->weight && v->cost < FORBIDDEN_SUM;
}

int formula_axis(const struct choice *c)
{
	return config_is_formula(&c->config, c->kernel->space) ? c->kernel->space->formula_axis
							       : -1;
}

const struct formula *formula_of(const struct choice *c)
{
	const struct space *s = c->kernel->space;
	return &s->formulas[-1 - c->config.v[s->formula_axis]];
}

const struct axis *priced_axis(const struct forest *f, const struct selector_price *p)
{
	const struct space *s = f->choice[p->id].kernel->space;
	return s->formula_axis < 0 ? NULL : &s->axis[s->formula_axis];
}

/* ---- Python ---------------------------------------------------------------------------------- */
/* {"BLOCK_M": 16, ...}, with None for what a formula works out. */
static void tunables(FILE *out, const struct choice *c)
{
	const struct space *s = c->kernel->space;
	for (int i = 0; i < s->num_axes; i++) {
		fprintf(out, "%s\"%s\": ", i ? ", " : "{", s->axis[i].name);
		if (i == formula_axis(c))
			fputs("None", out);
		else
			fprintf(out, "%d", c->config.v[i]);
	}
	fputs(s->num_axes ? "}" : "{}", out);
}

static void formula(FILE *out, const struct choice *c)
{
	const int axis = formula_axis(c);
	if (axis < 0) {
		fputs("None", out);
		return;
	}
	const struct axis *a = &c->kernel->space->axis[axis];
	const struct formula *f = formula_of(c);
	fprintf(out,
		"{\"axis\": \"%s\", \"slots\": %d, \"start\": %d, \"launch\": %d, \"merge\": %d, "
		"\"values\": [",
		a->name, f->slots, f->start, f->launch, f->merge);
	for (int i = 0; i < a->num_values; i++)
		fprintf(out, "%s%d", i ? ", " : "", a->values[i]);
	fputs("]}", out);
}

static void price(FILE *out, const struct forest *f, const struct selector_price *p)
{
	const struct axis *a = priced_axis(f, p);
	fprintf(out,
		"{\"decision\": \"%s\", \"id\": %d, \"head_size\": %d, \"rows\": %d, \"tile\": %d, "
		"\"heads\": %d, \"slots\": %d, \"start\": %d,\n   \"axis\": ",
		decision_names[p->decision], p->id, p->head_size, p->price.rows, p->price.tile,
		p->price.heads, p->price.slots, p->price.start);
	fprintf(out, a ? "\"%s\"" : "%s", a ? a->name : "None");
	fputs(", \"values\": [", out);
	for (int i = 0; a && i < a->num_values; i++)
		fprintf(out, "%s%d", i ? ", " : "", a->values[i]);
	fputs("],\n   \"fs\": {", out);
	for (int i = 0; i < NUM_PRICE_TERMS; i++)
		fprintf(out, "%s\"%s\": %lld", i ? ", " : "", price_names[i], p->price.fs[i]);
	fputs("}}", out);
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
    "    blocks: of the launch at one segment; mean: keys a query sees, the lesser of\n"
    "    f[\"mean_seq\"] and f[\"keys_per_query\"]; longest: f[\"max_seq\"]; units: SMs, or\n"
    "    threads; resident: blocks that the shared memory of a unit holds, for formulas\n"
    "    whose slots are 0; legal: those of formula[\"values\"] that may run, all unless\n"
    "    given. The least estimate wins, of equals the smallest value.\n"
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

/* Line by line kernels/price.h. */
static const char python_cheapest[] =
    "def estimate(price, f, v):\n"
    "    \"\"\"Femtoseconds that the part is expected to take with its keys in v segments.\"\"\"\n"
    "    def parts(n, of):\n"
    "        return -(-n // of)\n"
    "\n"
    "    def q_blocks(seqs, tokens):\n"
    "        return max(seqs, parts(2 * tokens + seqs * (block_q - 1), 2 * block_q))\n"
    "\n"
    "    tile, start, seqs, tokens = price[\"tile\"], price[\"start\"], f[\"num_seqs\"], "
    "f[\"query_tokens\"]\n"
    "    packed = min(price[\"heads\"] or f[\"group\"], f[\"group\"])\n"
    "    block_q = max(price[\"rows\"] // packed, 1)\n"
    "    blocks, mean = seqs, f[\"keys_per_query\"]\n"
    "    if f[\"max_query\"] > 8 and tokens > f[\"prefill_tokens\"]:\n"
    "        decodes, prefill = max(f[\"decode_seqs\"], 1), max(f[\"prefill_tokens\"], 1)\n"
    "        each = f[\"decode_kv\"] // decodes\n"
    "        pairs = max(mean * tokens - each * (tokens - f[\"prefill_tokens\"]), 0)\n"
    "        others = q_blocks(seqs - f[\"decode_seqs\"], prefill)\n"
    "        blocks = max(others, 1) + decodes\n"
    "        mean = (others * (pairs // prefill + block_q // 2) + decodes * each) // blocks\n"
    "    elif f[\"max_query\"] > block_q:\n"
    "        mean += block_q // 2\n"
    "        alike = f[\"mean_query\"] == f[\"max_query\"]\n"
    "        blocks = seqs * parts(f[\"max_query\"], block_q) if alike else q_blocks(seqs, "
    "tokens)\n"
    "    blocks *= f[\"num_kv_heads\"] * parts(f[\"group\"], min(packed, price[\"rows\"]))\n"
    "    longest = min(f[\"max_seq\"], f[\"window\"] + block_q)\n"
    "    mean = min(mean, longest)\n"
    "    total = blocks * mean // f[\"units\"]\n"
    "    longest = parts(parts(longest, tile), v) * tile\n"
    "    mean = parts(parts(mean, tile) * tile, v)\n"
    "    slots, n = f[\"units\"] * price[\"slots\"], blocks * v\n"
    "    one, more = mean + start, max(longest - mean, 0)\n"
    "    path = longest + start\n"
    "    if n > slots:\n"
    "        idle = parts(n, slots) * slots - n\n"
    "        tail = more if f[\"max_query\"] <= 8 else more * slots // (4 * n)\n"
    "        lacks = idle * one * one // max(one + 4 * more, 1)\n"
    "        path = max((one * n + lacks) // slots + tail, path)\n"
    "    keys, fresh = max(f[\"keys_per_query\"], 1), (f[\"mean_query\"] + f[\"max_query\"]) // 4\n"
    "    context = 0 if f[\"max_query\"] <= 8 else max(keys - fresh, 0) * min(path, 1 << 27) // "
    "keys\n"
    "    rows, splits = tokens * f[\"num_query_heads\"], int(v > 1)\n"
    "    amount = {\"launch\": 1, \"path\": path, \"context\": context, \"total\": "
    "total,\n"
    "              \"kib\": f[\"kv_kib\"], \"rows\": rows, \"split\": splits, \"segments\": splits "
    "* v, \"merge\": splits * v * rows}\n"
    "    return sum(price[\"fs\"][term] * min(amount[term], 1 << 27) for term in amount)\n"
    "\n"
    "\n"
    "def cheapest(decision, f, legal=lambda id, v: True):\n"
    "    \"\"\"(estimate, id, value of the price's axis), the least, of equals the first; or "
    "None.\n"
    "\n"
    "    decision: \"prefill\" or \"decode\";\n"
    "    legal: whether choice `id` may run with that value, or with 1 where it has no axis.\n"
    "    \"\"\"\n"
    "    best = None\n"
    "    sizes = sorted({p[\"head_size\"] for p in PRICES if p[\"decision\"] == decision})\n"
    "    size = next((s for s in sizes if s >= f[\"head_size\"]), sizes[-1] if sizes else 0)\n"
    "    for price in sorted(PRICES, key=lambda p: p[\"id\"]):\n"
    "        if price[\"decision\"] != decision or price[\"head_size\"] != size:\n"
    "            continue\n"
    "        for v in price[\"values\"] or [1]:\n"
    "            if legal(price[\"id\"], v):\n"
    "                fs = estimate(price, f, v)\n"
    "                if best is None or fs < best[0]:\n"
    "                    best = (fs, price[\"id\"], v)\n"
    "    return best\n";

static int emit_python(FILE *out, const struct forest *f, const struct data *d)
{
	fprintf(
	    out,
	    "\"\"\"Generated by `attune induce --gpu %s --emit python`: do not edit.\n\n"
	    "%s, %s; database %s.\n"
	    "f: a mapping from the names of kernels/features.def to integers. prefill and decode\n"
	    "return an index into CHOICES (-1: the kernels' defaults, -2: what cheapest returns),\n"
	    "overlap, of batches with both parts, -1 (one after the other), -3 (side by side on\n"
	    "two streams), -4 (one launch over the whole batch by the prefill choice) or an index\n"
	    "into CHOICES (that for the prefill part, side by side, or of a fused kernel for the\n"
	    "whole batch).\n"
	    "early, of a part whose choice has a tunable EARLY, returns its value where the\n"
	    "caller lets launches begin early, or -1 (as the choice has it). A choice is\n"
	    "(kernel, tunables, formula); a tunable that is None is for resolve_segments to work\n"
	    "out by the formula. unless: a rule that the choice may break in that leaf; take the\n"
	    "defaults there.\n\"\"\"\n\n",
	    f->gpu, d->run.device.name, d->run.device.arch, d->hash);
	fprintf(out, "GPU = \"%s\"\nRULES = 0x%016llx\nKERNELS = {\n", f->gpu, rules_hash());
	for (const struct kernel *k = NULL; (k = forest_next_kernel(f, k)) != NULL;)
		fprintf(out, "    \"%s\": 0x%016llx,\n", k->name, kernel_hash(k));
	fputs("}\nCHOICES = [\n", out);
	for (int i = 0; i < f->num_choices; i++) {
		const struct choice *c = &f->choice[i];
		fprintf(out, "    (\"%s\", ", c->kernel->name);
		tunables(out, c);
		fputs(formula_axis(c) < 0 ? ", " : ",\n     ", out);
		formula(out, c);
		fputs("),\n", out);
	}
	fputs("]\nPRICES = [\n", out);
	for (int i = 0; i < f->num_prices; i++) {
		fputs("  ", out);
		price(out, f, &f->price[i]);
		fputs(",\n", out);
	}
	fprintf(out, "]\n\n\n%s\n\n%s", python_resolve, python_cheapest);
	for (int t = 0; t < NUM_DECISIONS; t++) {
		fprintf(out, "\n\ndef %s(f):\n", decision_names[t]);
		python_node(out, &f->tree[t], 0, 1);
	}
	return !ferror(out);
}

/* ---- text ------------------------------------------------------------------------------------- */
static void text_node(FILE *out, const struct tree *t, int node, int depth)
{
	static const char *const words[] = { [-SAYS_CHEAPEST] = "cheapest",
					     [-SAYS_STREAMS] = "streams",
					     [-SAYS_WHOLE] = "whole" };
	const struct node *v = &t->v[node];
	fprintf(out, "%*s", 2 * depth, "");
	if (v->feature < 0) {
		if (v->action < SAYS_DEFAULTS)
			fprintf(out, "return %s", words[-v->action]);
		else
			fprintf(out, "return %d", v->action);
		if (has_figures(v))
			fprintf(out, " # %d scenario%s, %.3f", v->support,
				v->support == 1 ? "" : "s", mean_slowdown(v->cost, v->weight));
		putc('\n', out);
		return;
	}
	fprintf(out, "if %s <= %lld\n", feature_names[v->feature], v->threshold);
	text_node(out, t, v->below, depth + 1);
	text_node(out, t, v->above, depth + 1);
}

static int emit_text(FILE *out, const struct forest *f, const struct data *d)
{
	char text[MAX_CHOICE_TEXT];
	fprintf(out,
		"# By `attune induce --gpu %s --emit text` from database %s: for\n"
		"# ATTUNE_HEURISTICS=, and to be edited.\n"
		"attune heuristics 3\ngpu %.*s\nrules 0x%016llx\n",
		f->gpu, d->hash, gpu_length(f->gpu), f->gpu, rules_hash());
	for (const struct kernel *k = NULL; (k = forest_next_kernel(f, k)) != NULL;)
		fprintf(out, "kernel %s 0x%016llx\n", k->name, kernel_hash(k));
	putc('\n', out);
	for (int i = 0; i < f->num_choices; i++) {
		const struct choice *c = &f->choice[i];
		config_text(text, sizeof text, &c->config, c->kernel->space);
		fprintf(out, "choice %d %s %s\n", i, c->kernel->name, text);
	}
	for (int i = 0; i < f->num_prices; i++) {
		const struct selector_price *p = &f->price[i];
		fprintf(out, "price %s %d %d %d %d %d %d %d", decision_names[p->decision], p->id,
			p->head_size, p->price.rows, p->price.tile, p->price.heads, p->price.slots,
			p->price.start);
		for (int k = 0; k < NUM_PRICE_TERMS; k++)
			fprintf(out, " %lld", p->price.fs[k]);
		putc('\n', out);
	}
	for (int t = 0; t < forest_decisions(f); t++) {
		fprintf(out, "\ntree %s\n", decision_names[t]);
		text_node(out, &f->tree[t], 0, 1);
	}
	return !ferror(out);
}

/* ---- which ------------------------------------------------------------------------------------ */
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
