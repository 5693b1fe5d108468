/* override_rows.h - a correct override file, and the message for each mistake in it. */
#ifndef TESTS_LIBRARY_OVERRIDE_ROWS_H
#define TESTS_LIBRARY_OVERRIDE_ROWS_H

#define SEGMENTED "segmented BLOCK_M=16 TILE_SIZE=64 NUM_WARPS=4 NUM_STAGES=3 SEGMENTS="

/* completed() replaces HASH by hashes. */
static const char good[] = "attune heuristics 4\n"
			   "gpu h200\n"
			   "rules 0xHASH # of the features\n"
			   "kernel qblock 0xHASH # of its tunables\n"
			   "kernel segmented 0xHASH\n"
			   "choice 0 qblock BLOCK_M=16 TILE_SIZE=64 NUM_WARPS=4 NUM_STAGES=3\n"
			   "choice 1 " SEGMENTED "balance(1,96,192,16)\n"
			   "choice 2 " SEGMENTED "fitted\n"
			   "segments 2 128 3 96 7 14 21 28 # of head size 128\n"
			   "tree prefill\n"
			   "return 0\n"
			   "tree decode\n"
			   "if blocks_per_unit <= 16\n"
			   "\tif max_seq <= 256\n"
			   "\t\treturn 0\n"
			   "\t\treturn 1\n"
			   "\treturn 2\n"
			   "tree overlap\n"
			   "return -1";

// clang-format off
static const struct broken {
	const char *name, *from, *to;
	int line;
	const char *found, *right;
} broken[] = {
	{ "another version",      "heuristics 4", "heuristics 3",      1, "\"3\"", "\"attune heuristics 4\"" },
	{ "not this format",      "attune", "{\"gpu\":",               1, "{\"gpu\":", "\"attune heuristics 4\"" },
	{ "another GPU",          "gpu h200", "gpu a100",              2, "\"a100\"", "the device in use is \"h200\"" },
	{ "other features",       "rules 0x", "rules 0x1",             3, "0x1", "attune induce --gpu h200" },
	{ "no hash of features",  "rules 0x", "#",                     4, "\"kernel\"", "\"rules 0xHASH\"" },
	{ "other tunables",       "segmented 0x", "segmented 0x1",     5, "0x1", "the tunables of segmented of this library are 0x" },
	{ "no hash of a kernel",  "kernel segmented", "# segmented",   7, "\"segmented\"", "a line \"kernel segmented 0xHASH\" is expected above" },
	{ "a hash of no kernel",  "kernel segmented", "kernel sigmoid", 5, "\"sigmoid\"", "no such kernel" },
	{ "a kernel without a hash", "kernel segmented 0x", "kernel segmented # 0x", 5, "\"\"", "the tunables of segmented" },
	{ "ids out of turn",      "choice 1", "choice 2",              7, "\"2\"", "a number of 1 to 1" },
	{ "an unknown kernel",    " 0 qblock", " 0 qblok",                   6, "qblok", "one of these is expected: naive qblock segmented" },
	{ "a helper",             " 0 qblock", " 0 reduce",                  6, "reduce", "one of these is expected: naive qblock segmented" },
	{ "an unknown axis",      "BLOCK_M=16", "BLOCK_N=16",          6, "BLOCK_N=16", "BLOCK_M= TILE_SIZE= NUM_WARPS= NUM_STAGES=" },
	{ "an unlisted value",    "TILE_SIZE=64", "TILE_SIZE=65",      6, "TILE_SIZE=65", "of: 32 64 128" },
	{ "an unlisted formula",  "(1,96,", "(1,97,",                  7, "balance(1,97,192,16)", "of: fitted balance(0,192,192,16)" },
	{ "a missing axis",       " NUM_STAGES=3", "",                 6, "missing", "NUM_STAGES=" },
	{ "no prefill tree",      "tree prefill\nreturn 0\n", "",      10, "\"decode\"", "\"tree prefill\"" },
	{ "an unknown feature",   "max_seq", "maxseq",                14, "\"maxseq\"", " max_seq " },
	{ "another comparison",   "<= 256", "< 256",                  14, "\"<\"", "\"<=\"" },
	{ "no number",            "<= 256", "<= many",                14, "\"many\"", "a threshold should be a number" },
	{ "half a number",        "<= 256", "<= 256k",                14, "\"256k\"", "a threshold should be a number" },
	{ "a huge number",        "<= 256", "<= 99999999999999999999",14, "\"9999", "a threshold should be a number" },
	{ "more on the line",     "<= 256", "<= 256 and",             14, "\"and\"", "the line should end before it" },
	{ "an id out of range",   "\t\treturn 1", "\t\treturn 3",     16, "\"3\"", "an id should be a number of -1 to 2" },
	{ "a negative id",        "\t\treturn 1", "\t\treturn -2",    16, "\"-2\"", "an id should be a number of -1 to 2" },
	{ "a missing subtree",    "\treturn 2\ntree", "tree",         17, "\"tree\"", "two subtrees follow each if" },
	{ "a subtree too many",   "tree overlap", "return 1\ntree overlap", 18, "\"return 1\"", "\"tree overlap\", then" },
	{ "trees out of turn",    "tree decode", "tree overlap",       12, "\"overlap\"", "\"tree decode\"" },
	{ "the end in a tree",    "overlap\nreturn -1", "overlap",     18, "\"\"", "\"return ID\" is expected" },
	{ "a tree of version 2",  "tree overlap\nreturn -1", "tree join\nreturn 1", 18, "\"tree join\"", "\"tree overlap\", then" },
	{ "text behind the trees","overlap\nreturn -1", "overlap\nreturn -1\nend", 20, "\"end\"", "\"tree overlap\", then \"tree early\"" },
	{ "text behind the last", "overlap\nreturn -1", "overlap\nreturn -1\ntree early\nreturn -1\nend", 22, "\"end\"", "and nothing else" },
	{ "text behind the early", "overlap\nreturn -1", "overlap\nreturn -1\ntree early\nreturn 1\ntree overlap\nreturn -1", 22, "\"tree overlap\"", "and nothing else" },
	{ "no value of EARLY",    "overlap\nreturn -1", "overlap\nreturn -1\ntree early\nreturn 3", 21, "\"3\"", "an id should be a number of -1 to 2" },
	{ "an overlap that is none","overlap\nreturn -1", "overlap\nreturn 3", 19, "\"3\"", "an id should be a number of -1 to 2" },
	{ "a misspelt word for costs", "=fitted", "=fited",            8, "SEGMENTS=fited", "of: fitted balance(0,192,192,16)" },
	{ "costs of another axis", "TILE_SIZE=64", "TILE_SIZE=fitted",  6, "TILE_SIZE=fitted", "of: 32 64 128" },
	{ "the cheapest",         "return 2", "return cheapest",       17, "\"cheapest\"", "an id should be a number of -1 to 2" },
	{ "an overlap by defaults","overlap\nreturn -1", "overlap\nreturn defaults", 19, "\"defaults\"", "an id should be a number of -1 to 2" },
	{ "streams of a part",    "return 2", "return streams",        17, "\"streams\"", "an id should be a number" },
	{ "one launch by the prefill choice", "overlap\nreturn -1", "overlap\nreturn whole", 19, "\"whole\"", "an id should be a number of -1 to 2" },
	{ "its number",           "overlap\nreturn -1", "overlap\nreturn -4", 19, "\"-4\"", "an id should be a number of -1 to 2" },
	{ "half a word",          "return 2", "return default",        17, "\"default\"", "an id should be a number" },
	{ "more than defaults",   "return 2", "return defaults 1",     17, "\"1\"", "the line should end before it" },
	{ "prices of version 3",  "segments 2 128", "price decode 2 128", 9, "\"price", "choice 2 says SEGMENTS=fitted: a line \"segments 2 HEAD_SIZE" },
	{ "a choice without costs", "segments 2 128 3 96 7 14 21 28", "", 10, "\"tree prefill\"", "choice 2 says SEGMENTS=fitted: a line" },
	{ "costs of a formula",   "segments 2", "segments 1",           9, "\"1\"", "choice 1 does not say SEGMENTS=fitted" },
	{ "costs twice",          "tree prefill", "segments 2 128 3 96 7 14 21 28\ntree prefill", 10, "\"2\"", "choice 2 has another line above for head size 128" },
	{ "an unlisted id",       "segments 2", "segments 3",           9, "\"3\"", "a choice listed above should be a number of 0 to 2" },
	{ "a negative id of it",  "segments 2", "segments -1",          9, "\"-1\"", "a number of 0 to 2" },
	{ "costs above choices",  "choice 2", "segments 2 128\nchoice 2", 8, "\"2\"", "a number of 0 to 1" },
	{ "choices below costs",  "tree prefill", "choice 3",          10, "\"choice\"", "\"tree prefill\"" },
	{ "no head size",         "2 128 3", "2 0 3",                   9, "\"0\"", "a head size should be a number of 1" },
	{ "no slots",             "128 3 96", "128 0 96",               9, "\"0\"", "slots should be a number of 1 to 1024" },
	{ "too many slots",       "128 3 96", "128 1025 96",            9, "\"1025\"", "slots should be a number of 1 to 1024" },
	{ "a negative start",     "3 96 7", "3 -96 7",                  9, "\"-96\"", "start should be a number of 0 to 65536" },
	{ "too long a start",     "3 96 7", "3 65537 7",                9, "\"65537\"", "start should be a number of 0 to 65536" },
	{ "a negative cost",      "96 7 14", "96 -7 14",                9, "\"-7\"", "path should be a number of 0" },
	{ "a broken cost",        "96 7 14", "96 7.5 14",               9, "\"7.5\"", "path should be a number of 0" },
	{ "too dear a key",       "96 7 14", "96 4294967296 14",        9, "\"4294967296\"", "path should be a number of 0 to 4294967295" },
	{ "too dear a split",     "7 14 21", "7 1099511627776 21",      9, "\"1099511627776\"", "split should be a number of 0 to 1099511627775" },
	{ "too dear a segment",   "14 21 28", "14 1099511627776 28",    9, "\"1099511627776\"", "segments should be a number of 0 to 1099511627775" },
	{ "too dear a merge",     "21 28 #", "21 4294967296 #",         9, "\"4294967296\"", "merge should be a number of 0 to 4294967295" },
	{ "too few costs",        "96 7 14", "96 14",                   9, "\"\"", "merge should be a number of 0" },
	{ "too many costs",       "96 7 14", "96 7 7 14",               9, "\"28\"", "the line should end before it" },
	{ "a word behind costs",  " # of head", " of head",             9, "\"of head", "the line should end before it" },
	{ "control characters",   "tree overlap", "tr\x01""e overlap", 18, "\"tr?e overlap\"", "\"tree overlap\", then" },
};
// clang-format on

#endif
