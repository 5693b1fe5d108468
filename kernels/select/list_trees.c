/* SPDX-License-Identifier: Apache-2.0 */
/* list_trees.c - a build tool that writes the trees and lists of generated headers as data: the
 * nodes of attune_<gpu>_<decision>() in preorder, as struct selector_node.
 *
 *   if (f->max_seq <= 4096)          NODE(ATTUNE_FEATURE_max_seq, 2, 4096)
 *           return h200_ring;        NODE(-1, 0, h200_ring)
 *   return h200_naive;               NODE(-1, 0, h200_naive)
 *
 * A header without an early tree gets one leaf: SAYS_OWN. The tool also writes
 * ATTUNE_<GPU>_ROWS, the rows of ATTUNE_<GPU>_LISTS with the GPU before each name (none of a header
 * that has no LISTS), ATTUNE_<GPU>_RATES, the row of ATTUNE_<GPU>_MIXED as struct mixed_rates (zeros of
 * a header that has none), ATTUNE_<GPU>_OVERLAPS, whether some leaf of the overlap tree is not serial, and
 * ATTUNE_<GPU>_DEVICE, the device that the header's comment names.
 *
 *   build/list_trees attune_<gpu>.h ... >trees.inc */
#include "header_text.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int count(const struct header_tree *t, int node)
{
	const struct header_node *v = &t->v[node];
	return v->below < 0 ? 1 : 1 + count(t, v->below) + count(t, v->above);
}

/* Appends a subtree to `rows`; its first node has the number `at`. */
static void print_nodes(FILE *rows, const struct header_tree *t, int node, int at)
{
	const struct header_node *v = &t->v[node];
	if (v->below < 0) {
		fprintf(rows, " \\\n\tNODE(-1, 0, %s)", v->word);
		return;
	}
	const int above = at + 1 + count(t, v->below);
	fprintf(rows, " \\\n\tNODE(ATTUNE_FEATURE_%s, %d, %lld)", v->word, above, v->threshold);
	print_nodes(rows, t, v->below, at + 1);
	print_nodes(rows, t, v->above, above);
}

/* Whether the leaves below a node have different answers from `word`. */
static int has_other(const struct header_tree *t, int node, const char *word)
{
	const struct header_node *v = &t->v[node];
	return v->below < 0 ? strcmp(v->word, word) != 0
			    : has_other(t, v->below, word) || has_other(t, v->above, word);
}

static int print_lists(const char *text, struct header_text *r, const char *gpu, const char *upper)
{
	static const char key[] = "_LISTS(LIST)";
	const char *lists = strstr(text, key);
	char word[ATTUNE_LIST_MEMBERS][HEADER_NAME];
	int done = 1;
	printf("#define ATTUNE_%s_ROWS(ROW)", upper);
	r->at = lists ? lists + strlen(key) : "";
	while (done && header_next_is(r, "LIST(")) {
		done = header_list(r, word);
		for (int i = 0; done && i < ATTUNE_LIST_MEMBERS; i++)
			printf("%s%s_%s", i ? ", " : " \\\n\tROW(", gpu, word[i]);
		fputs(done ? ")" : "", stdout);
	}
	putchar('\n');
	return done;
}

static int print_rates(const char *text, struct header_text *r, const char *upper)
{
	static const char key[] = "_MIXED(MIXED)";
	const char *row = strstr(text, key);
	struct mixed_rates v = { 0 };
	r->at = row ? row + strlen(key) : "";
	if (row && !header_mixed(r, &v))
		return 0;
	printf("#define ATTUNE_%s_RATES { %d, %d, %d, %d, %d, %d, %d, %d }\n", upper, v.unit_flops,
	       v.unit_reads, v.stream_ns, v.half_reads, v.all_reads, v.start_ns, v.leave_ns,
	       v.segment_ns);
	return 1;
}

/* "attune_<gpu>.h" -> "<gpu>", "<GPU>" */
static void names_of(const char *path, char gpu[GPU_NAME], char upper[GPU_NAME])
{
	const char *file = strrchr(path, '/');
	gpu[0] = '\0';
	sscanf(file ? file + 1 : path, "attune_%63[a-z0-9_]", gpu);
	for (int i = 0; i < GPU_NAME; i++)
		upper[i] = (char)toupper((unsigned char)gpu[i]);
}

/* Prints the root of each tree, then the nodes of all. */
static int print_header(const char *path, const char *text)
{
	const char *trees = strstr(text, "\nATTUNE_SELECT int ");
	struct header_text r = { .start = text, .at = text };
	char gpu[GPU_NAME] = "", upper[GPU_NAME], serial[GPU_NAME + 8], *rows = NULL;
	char device[HEADER_DEVICE];
	size_t size;
	int n = 0, done;
	FILE *out = open_memstream(&rows, &size);
	names_of(path, gpu, upper);
	snprintf(serial, sizeof serial, "%s_serial", gpu);
	header_device(text, device);
	printf("#define ATTUNE_%s_DEVICE \"%s\"\n", upper, device);
	done = print_lists(text, &r, gpu, upper) && print_rates(text, &r, upper);
	if (done)
		r.at = trees ? trees : text;
	for (int d = 0; out && done && d < NUM_DECISIONS; d++) {
		struct header_tree t;
		done = header_tree(&r, gpu, (enum decision)d, &t) && (t.n || d == DECIDE_EARLY);
		if (!done)
			break;
		printf("#define ATTUNE_%s_ROOT_%s %d\n", upper, decision_names[d], n);
		if (t.n)
			print_nodes(out, &t, 0, n);
		else
			fprintf(out, " \\\n\tNODE(-1, 0, SAYS_OWN)");
		if (d == DECIDE_OVERLAP)
			printf("#define ATTUNE_%s_OVERLAPS %d\n", upper, has_other(&t, 0, serial));
		n += t.n ? t.n : 1;
		free(t.v);
	}
	if (!out || fclose(out) || !done)
		fprintf(stderr, "%s:%d: %s expected\n", path, header_line(&r),
			*r.wanted ? r.wanted : "a function for each decision is");
	else
		printf("#define ATTUNE_%s_NODES(NODE)%s\n", upper, rows);
	done = out && done;
	free(rows);
	return done;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		FILE *in = fopen(argv[i], "r");
		char *text = NULL;
		size_t room = 0;
		if (!in || getdelim(&text, &room, '\0', in) < 0) {
			fprintf(stderr, "%s: cannot be read\n", argv[i]);
			return 1;
		}
		fclose(in);
		const int done = print_header(argv[i], text);
		free(text);
		if (!done)
			return 1;
	}
	return fflush(stdout) || ferror(stdout);
}
