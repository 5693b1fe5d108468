/* SPDX-License-Identifier: Apache-2.0 */
/* override_rows.h - the rules of a correct header, and the message for each mistake in it. */
#ifndef TESTS_LIBRARY_OVERRIDE_ROWS_H
#define TESTS_LIBRARY_OVERRIDE_ROWS_H

#include "rules_header.h"

#define SEGMENTED "segmented BLOCK_M=16 TILE_SIZE=64 NUM_WARPS=4 NUM_STAGES=3 SEGMENTS="
#define COSTS "SEGMENTS(h200_c2, 128, 3, 96, 7, 14, 21, 28)"
#define LISTS "LIST(c1, c2, none, none) LIST(c0, c2, c1, none)"
#define DECODE                                                                               \
	"if (f->blocks_per_unit <= 16) {\n\t\tif (f->max_seq > 256) return h200_c1; /* long" \
	" */\n\t\treturn h200_c0;\n\t}\n\treturn h200_c2;"

/* With DECODE in place of what its decode tree returns. */
static const struct rules good = {
	.choice = { "qblock BLOCK_M=16 TILE_SIZE=64 NUM_WARPS=4 NUM_STAGES=3", SEGMENTED "4",
		    SEGMENTED "fitted" },
	.segments = COSTS,
	.lists = LISTS,
	.prefill = "h200_c0",
	.decode = "h200_c2",
	.overlap = "h200_serial",
};

// clang-format off
static const struct broken {
	const char *name, *from, *to; /* the last one of the text */
	int behind; /* the message's line, counted from the line of `from` */
	const char *found, *right;
} broken[] = {
	{ "not a header",         "#ifndef", "attune heuristics 4\n#ifndef", 0, "attune heur", "'#ifndef ATTUNE_' is expected" },
	{ "another guard",        "#define ATTUNE_H200_H", "#define ATTUNE_H100_H", 0, "#define ATTUNE_H100_H", "'#define ATTUNE_H200_H'" },
	{ "another GPU's name",   "GPU \"h200\"", "GPU \"h100\"",   0, "\"h100\"", "the GPU of ATTUNE_H200_H" },
	{ "other features",       "rules, features, 0x", "rules, features, 0x1", 0, "", "16 digits of a hash" },
	{ "no hash of features",  "rules, features", "gpu, nothing",0, "", "gpu nothing is no kernel of this library" },
	{ "a kernel of the CPU",  "KERNEL(gpu, segmented,", "KERNEL(cpu, segmented,", 0, "", "cpu segmented is no kernel of this library" },
	{ "another kernel's hash", "KERNEL(gpu, segmented,", "/* none */ KERNEL(gpu, qblock,", 0, "gpu, qblock", "the hash of that kernel" },
	{ "another row",          "CHOICE(1", "CHOISE(1", 0, "CHOISE(1", "'#define ATTUNE_H200_SAYS(" },
	{ "ids out of turn",      "CHOICE(1", "CHOICE(2",           0, "2, c1", "the next id, of 1 to 1" },
	{ "an unknown kernel",    "c0, qblock", "c0, qblok",        0, "qblok", "one of these is expected: naive qblock segmented" },
	{ "a helper",             "c0, qblock", "c0, reduce",       0, "reduce", "one of these is expected: naive qblock segmented" },
	{ "an unknown axis",      "\"BLOCK_M=16 TILE_SIZE=64 NUM_WARPS=4 NUM_STAGES=3\"", "\"BLOCK_N=16\"", 0, "qblock", "BLOCK_M= TILE_SIZE= NUM_WARPS= NUM_STAGES=" },
	{ "an unlisted value",    "TILE_SIZE=64", "TILE_SIZE=65",   0, "segmented", "of: 32 64 128" },
	{ "a misspelt word for costs", "=fitted", "=fited",         0, "segmented", "given once, and of: fitted" },
	{ "an open text",         "NUM_STAGES=3\")", "NUM_STAGES=3)", 0, "BLOCK_M=16", "a text of at most" },
	{ "a choice without costs", COSTS, "",                    -19, "segmented", "a row of SEGMENTS for SEGMENTS=fitted is expected" },
	{ "costs of no fitted one", "h200_c2, 128", "h200_c1, 128", -20, "segmented", "SEGMENTS=fitted where SEGMENTS has a row" },
	{ "another enum",         "h200_serial = -1", "h200_serial = -2", 0, "", "'h200_defaults = -1, h200_serial = -1, h200_one_launch" },
	{ "a row of another name",  "LIST(c0", "LIST(c3",             0, "c3, c2", "a name of CHOICES, not c3, is" },
	{ "a row of none",        "LIST(c0", "LIST(none",           0, "none, c2", "a name of CHOICES, not none, is" },
	{ "a row of the defaults", "LIST(c0", "LIST(defaults",      0, "defaults, c2", "a name of CHOICES, not defaults, is" },
	{ "a row of the GPU's name", "LIST(c0", "LIST(h200_c0",     0, "h200_c0, c2", "a name of CHOICES, not h200_c0, is" },
	{ "an unknown member",    "c0, c2, c1", "c0, c4, c1",       0, "c0, c4", "a name of CHOICES or none, not c4, is" },
	{ "a member twice",       "c0, c2, c1", "c0, c2, c2",       0, "c0, c2", "each choice once, not c2 twice, is" },
	{ "the first again",      "c0, c2, c1", "c0, c2, c0",       0, "c0, c2", "each choice once, not c0 twice, is" },
	{ "a member behind none", "c0, c2, c1", "c0, none, c1",     0, "c0, none", "none behind none, not c1, is" },
	{ "two rows of a first",  "LIST(c0, c2, c1", "LIST(c1, c2, c0", 0, "c1, c2", "one row of c1 is" },
	{ "a row of no leaf's choice", "return h200_c1", "return h200_c0", -21, "c1, c2", "a choice that a leaf of the prefill or the decode tree names is expected" },
	{ "too few members",      "c0, c2, c1, none", "c0, c2, c1", 0, ")", "',' is expected" },
	{ "too many members",     "c1, none)", "c1, none, none)",   0, ", none)", "')' is expected" },
	{ "another row's code",   "h200_##c, h200_##d)", "h200_##d, h200_##c)", 0, "ATTUNE_LIST_CASE(h200_##a", "'ATTUNE_LIST_CASE(h200_##a, h200_##b, h200_##c, h200_##d)' is" },
	{ "no rows' function",    "attune_h200_list(int first)", "attune_h200_row(int first)", 0, "ATTUNE_SELECT", "attune_h200_list(int first)' is expected" },
	{ "costs twice",          COSTS, COSTS " " COSTS,           0, "h200_c2, 128", "one row of a choice for head size 128" },
	{ "costs of an unknown one", "(h200_c2", "(h200_c3",        0, "h200_c3", "the name of a choice" },
	{ "costs of the defaults", "(h200_c2", "(h200_defaults",    0, "h200_defaults", "the name of a choice" },
	{ "no head size",         "128, 3", "0, 3",                 0, "0, 3", "a head size of 1 to 65536" },
	{ "no slots",             "128, 3, 96", "128, 0, 96",       0, "0, 96", "slots of 1 to 1024" },
	{ "too many slots",       "128, 3, 96", "128, 1025, 96",    0, "1025", "slots of 1 to 1024" },
	{ "a negative start",     "3, 96, 7", "3, -96, 7",          0, "-96", "a start of 0 to 65536" },
	{ "a broken cost",        "96, 7, 14", "96, 7.5, 14",       0, "7.5", "a path of 0" },
	{ "too dear a key",       "96, 7, 14", "96, 4294967296, 14",0, "4294967296", "a path of 0 to 4294967295" },
	{ "too dear a split",     "7, 14, 21", "7, 1099511627776, 21", 0, "1099511627776", "a split of 0 to 1099511627775" },
	{ "too dear a segment",   "14, 21, 28", "14, 1099511627776, 28", 0, "1099511627776", "segments of 0 to 1099511627775" },
	{ "too dear a merge",     "21, 28)", "21, 4294967296)",     0, "4294967296", "a merge of 0 to 4294967295" },
	{ "too few costs",        ", 28)", ")",                     0, ")", "',' is expected" },
	{ "too many costs",       ", 28)", ", 28, 35)",             0, ", 35)", "')' is expected" },
	{ "no rate",              "ATTUNE_SELECT int attune_h200_prefill", "#define ATTUNE_H200_MIXED(MIXED) MIXED(4400, 0, 3, 4, 5, 6, 7, 8)\nATTUNE_SELECT int attune_h200_prefill", 0, "0, 3", "a rate of 1 to 1000000" },
	{ "too few rates",        "ATTUNE_SELECT int attune_h200_prefill", "#define ATTUNE_H200_MIXED(MIXED) MIXED(1, 2, 3, 4, 5, 6, 7)\nATTUNE_SELECT int attune_h200_prefill", 0, ")", "',' is expected" },
	{ "no prefill tree",      "attune_h200_prefill", "attune_h200_profile", 0, "ATTUNE_SELECT", "attune_h200_prefill(" },
	{ "trees out of turn",    "attune_h200_decode", "attune_h200_overlap", 0, "ATTUNE_SELECT", "attune_h200_decode(" },
	{ "an unknown feature",   "max_seq", "maxseq",              0, "maxseq", "a feature of features.def" },
	{ "another comparison",   "<= 16", "< 16",                  0, "< 16", "'<=' is expected" },
	{ "no number",            "<= 16", "<= many",               0, "many", "a number of" },
	{ "half a number",        "<= 16", "<= 16k",                0, "16k", "a number of" },
	{ "a huge number",        "<= 16", "<= 99999999999999999999", 0, "9999", "a number of" },
	{ "two conditions",       "<= 16", "<= 16 && f->max_seq <= 2", 0, "&& f", "')' is expected" },
	{ "an id out of range",   "return h200_c2", "return 3",     0, "3", "a name of CHOICES or defaults" },
	{ "an unknown name",      "return h200_c2", "return h200_c3", 0, "h200_c3", "a name of CHOICES or defaults" },
	{ "another GPU's choice", "return h200_c2", "return h100_c2", 0, "h100_c2", "a name of CHOICES or defaults" },
	{ "streams of a part",    "return h200_c2", "return h200_streams", 0, "h200_streams", "a name of CHOICES or defaults" },
	{ "an overlap by defaults", "return h200_serial", "return h200_defaults", 0, "h200_defaults", "serial, one_launch, streams or streams_sparing16 to 112" },
	{ "a call",               "return h200_c2", "return best(f)", 0, "best(f)", "a name of CHOICES" },
	{ "no value of EARLY",    "#endif", "ATTUNE_SELECT int attune_h200_early(const struct attune_features *f)\n{\n\treturn 3;\n}\n#endif", 2, "3", "a number of -1 to 2" },
	{ "a choice for EARLY",   "#endif", "ATTUNE_SELECT int attune_h200_early(const struct attune_features *f)\n{\n\treturn h200_c1;\n}\n#endif", 2, "h200_c1", "a number of -1 to 2" },
	{ "a missing subtree",    "\treturn h200_c2;\n", "",        0, "}", "'if (f->' is expected" },
	{ "a subtree too many",   "return h200_c2;", "return h200_c2;\n\treturn h200_c1;", 1, "return", "'}' is expected" },
	{ "another function",     "#endif", "int helper(void);\n#endif", 0, "int helper", "'#endif' is expected" },
	{ "no end",               "#endif", "",                     1, "", "'#endif' is expected" },
	{ "text behind the end",  "#endif", "#endif\nint more;",    1, "int more", "the end is expected" },
	{ "an open comment",      "#endif", "/* no end\n#endif",    0, "/* no end", "'#endif' is expected" },
	{ "control characters",   "return h200_c2", "return h200\x01_c2", 0, "h200?_c2", "a name of CHOICES" },
};
// clang-format on

#endif
