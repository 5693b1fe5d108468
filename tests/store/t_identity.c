/* SPDX-License-Identifier: Apache-2.0 */
/* t_identity.c - the identity of a source, by pairs of small texts: which changes alter it and
 * which do not. */
#include "harness/compile/compile.h"
#include "kernels/spec/kernel.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "tests/support/sources.h"

struct pair {
	const char *name, *one, *other;
	int same;
};

// clang-format off
static const struct pair pairs[] = {
	{ "blanks",                  "int a=1;", "\n int\ta\n= 1 ;\r\n", 1 },
	{ "comments",                "int a;", "/* b */ int // c\n a /* \"d */;", 1 },
	{ "a comment separates",     "int a;", "inta;", 0 },
	{ "a comment as a blank",    "int/**/a;", "int a;", 1 },
	{ "no comment in a string",  "s = \"/* a */\";", "s = \"\";", 0 },
	{ "blanks in a string",      "s = \"a b\";", "s = \"a  b\";", 0 },
	{ "an escaped quote",        "s = \"\\\"/*\"; t = \"*/\";", "s = \"\\\"\";", 0 },
	{ "a quote as a character",  "c = '\"'; // \"\nint a;", "c = '\"'; int a;", 1 },
	{ "a spliced word",          "int ab;", "int a\\\nb;", 1 },
	{ "a spliced operator",      "a += b;", "a +\\\n= b;", 1 },
	{ "a spliced comment",       "int a;", "// b \\\n int c;\nint a;", 1 },
	{ "an operator apart",       "a += b;", "a + = b;", 0 },
	{ "two operators",           "a - -b;", "a -- b;", 0 },
	{ "shifts apart",            "a >> b;", "a > > b;", 0 },
	{ "numbers",                 "a = 1e+5;", "a = 1e +5;", 0 },
	{ "hexadecimal floats",      "a = 0x1p-3;", "a = 0x1p - 3;", 0 },
	{ "a separated number",      "a = 1'000'000;", "a = 1000000;", 0 },
	{ "separators and comments", "a = 1'000; /* b */", "a = 1'000;", 1 },
	{ "a float without a digit", "a = .5f;", "a = . 5f;", 0 },
	{ "a prefix apart",          "s = L\"a\";", "s = L \"a\";", 0 },
	{ "a raw string",            "s = R\"x(a // \\\n)\" b)x\";", "s = R\"x(a // \\\n)\" b)x\" /* c */;", 1 },
	{ "layout of a raw string",  "s = R\"(a\n b)\";", "s = R\"(a\nb)\";", 0 },
	{ "a splice in a raw string","s = R\"(a\\\nb)\";", "s = R\"(ab)\";", 0 },
	{ "the end of a directive",  "#define A 1\nint a;", "#define A 1 int a;", 0 },
	{ "a spliced directive",     "#define A 1 + 2\n", "#define A \\\n\t1 + \\\n\t2\n", 1 },
	{ "a comment in a directive","#define A 1 /* b\n c */ + 2\nint a;", "#define A 1 + 2\nint a;", 1 },
	{ "no end of line",          "#define A 1\n", "#define A 1", 1 },
	{ "arguments of a macro",    "#define F(x) x\n", "#define F (x) x\n", 0 },
	{ "blanks of arguments",     "#define F(x) x\n", "#  define F( x )  x\n", 1 },
	{ "a call of a macro",       "a = F(x);", "a = F (x);", 1 },
	{ "a hash in a line",        "#define S(x) #x\n", "#define S(x) # x\n", 1 },
	{ "an untaken branch",       "#if 0\nint a;\n#endif\n", "#if 0\nint b;\n#endif\n", 0 },
	{ "a header of a toolkit",   "#include <cuda_fp16.h>\nint a;", "int a;", 1 },
	{ "a header that is nowhere","#include \"no.h\"\nint a;", "#include \"none.h\"\nint a;", 0 },
	{ "text and its header",     "#include \"plain.h\"\nint b;", "int a;\nint b;", 1 },
	{ "a header twice",          "#include \"plain.h\"\n#include \"plain.h\"\n", "int a; int a;", 1 },
	{ "a guarded header",        "#include \"guarded.h\"\nint b;", "int a; int b;", 1 },
	{ "a guarded header twice",  "#include \"guarded.h\"\n#include \"guarded.h\"\n", "int a;", 1 },
	{ "pragma once",             "#include \"once.h\"\n#include \"once.h\"\n", "int a;", 1 },
	{ "the place of a header",   "#include \"plain.h\"\nint b;", "int b;\n#include \"plain.h\"\n", 0 },
	{ "by another branch",       "#if A\n#include \"guarded.h\"\n#endif\n#include \"guarded.h\"\n",
				     "#if A\n#include \"guarded.h\"\n#endif\n", 0 },
	{ "in a branch again",       "#include \"guarded.h\"\n#if A\n#include \"guarded.h\"\n#endif\n",
				     "int a;\n#if A\n#endif\n", 1 },
	{ "a name that is no guard", "#include \"value.h\"\n", "#ifndef V\n#define V 1\n#endif\n", 1 },
	{ "else of a guard",         "#include \"else.h\"\n#include \"else.h\"\n", "#include \"else.h\"\n", 0 },
	{ "a header of a folder",    "#include \"deep/er.h\"\n", "int a;", 1 },
	{ "a name of a macro",       "#include HEADER\n", "#include OTHER\n", 0 },
};
// clang-format on

static void small_texts(void **state)
{
	(void)state;
	char hex[2][33];
	write_text("plain.h", "int a;\n");
	write_text("guarded.h", "/* a */\n#ifndef G_H\n#define G_H\nint a;\n#endif /* G_H */\n");
	write_text("once.h", "#pragma once\nint a;\n");
	write_text("value.h", "#ifndef V\n#define V 1\n#endif\n");
	write_text("else.h", "#ifndef E\n#define E\nint a;\n#else\nint b;\n#endif\n");
	write_text("deep/er.h", "#include \"../guarded.h\"\n#include \"plain.h\"\n");
	write_text("deep/plain.h", "");
	for (size_t i = 0; i < COUNT(pairs); i++) {
		write_text("one.cu", pairs[i].one);
		write_text("other.cu", pairs[i].other);
		identity("one.cu", hex[0]);
		identity("other.cu", hex[1]);
		if ((strcmp(hex[0], hex[1]) == 0) != pairs[i].same)
			fail_msg("%s", pairs[i].name);
	}
	assert_int_equal(source_identity_of(in_folder("nowhere.cu"), folder, hex[0]), 0);
}

static void kernels_differ(void **state)
{
	(void)state;
	char a[33], b[33];
	for (const struct kernel *k = attune_kernels; k->name; k++)
		for (const struct kernel *other = attune_kernels; other < k; other++) {
			assert_true(source_identity(k, a) && source_identity(other, b));
			assert_int_equal(strlen(a), 32);
			assert_string_not_equal(a, b);
		}
	const struct kernel none = { .name = "none", .source = "gpu/none.cu" };
	assert_int_equal(source_identity(&none, a), 0);
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest t[] = {
		cmocka_unit_test(small_texts),
		cmocka_unit_test(kernels_differ),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("identity", t, COUNT(t), make_folder, remove_folder);
}
