/* SPDX-License-Identifier: Apache-2.0 */
/* t_register_plugin.c - what plugin_register refuses, and its line. */
#include "sound_plugin.h"

#define AXIS_23 "ABCDEFGHIJKLMNOPQRSTUVW"

static const int twice[] = { 1, 2, 1 };
static const struct {
	const char *label;
	attune_plugin_axis axis;
	const char *line;
} axis_faults[] = {
	{ "no name", { NULL, "", values, 3, 0 }, "an axis has no name of capitals" },
	{ "a name in lower case", { "Splits", "", values, 3, 0 }, "no name of capitals" },
	{ "a name of 24 letters", { "X" AXIS_23, "", values, 3, 0 }, "of 23 at most" },
	{ "a name that is taken", { "SPARE_UNITS", "", values, 3, 0 }, "called SPARE_UNITS" },
	{ "values that are NULL", { "SPLITS", "", NULL, 3, 0 }, "an axis has no values" },
	{ "no values", { "SPLITS", "", values, 0, 0 }, "an axis has no values" },
	{ "a value twice", { "SPLITS", "", twice, 3, 1 }, "an axis has a value twice" },
	{ "another default", { "SPLITS", "", values, 3, 4 }, "the default of an axis is none" },
};
static const attune_plugin_axis same[] = { { "SPLITS", "", values, 3, 0 },
					   { "DEPTH", "", values, 3, 0 },
					   { "SPLITS", "", values, 3, 0 } };
static const attune_plugin_axis too_long[] = { SEVEN_LONG_AXES, LONG_AXIS("HH") };
static const attune_plugin_axis nine[ATTUNE_PLUGIN_AXES + 1] = { { "SPLITS", "", values, 3, 0 } };

// clang-format off
#define FAULTS(X) \
	X("an older ABI",           p->abi = 3,                "a plug-in is of ABI 3; attune has 4: compile it") \
	X("a newer ABI",            p->abi = 5,                "a plug-in is of ABI 5; attune has 4: compile it") \
	X("no name",                p->name = NULL,            "plug-in \"\": its name is not of") \
	X("an empty name",          p->name = "",              "its name is not of") \
	X("a name with capitals",   p->name = "Mine",          "plug-in \"Mine\": its name is not of") \
	X("a name with a blank",    p->name = "my one",        "its name is not of") \
	X("a name with a digit first", p->name = "3d",         "its name is not of") \
	X("a name of 32 letters",   p->name = LETTERS_31 "f",  "its name is not of") \
	X("a native kernel's name", p->name = "qblock",        "\"qblock\": a kernel has this name") \
	X("a helper's name",        p->name = "reduce",        "a kernel has this name") \
	X("no version",             p->version = NULL,         "its version is not of 1 to 48") \
	X("an empty version",       p->version = "",           "its version is not of 1 to 48") \
	X("a version of 49",        p->version = VERSION_48 "9", "its version is not of 1 to 48") \
	X("a version of two lines", p->version = "1\n2",       "printable characters") \
	X("no backend",             p->backend = NULL,         "its backend is none of cpu, cuda, hip") \
	X("an unknown backend",     p->backend = "rocm",       "its backend is none of cpu, cuda, hip") \
	X("an unknown need",        p->needs = 1u << 31,       "it needs what this attune does not know") \
	X("no refuses",             p->refuses = NULL,         "a function is missing") \
	X("no prepare",             p->prepare = NULL,         "a function is missing") \
	X("no plan",                p->plan = NULL,            "a function is missing") \
	X("no launch",              p->launch = NULL,          "a function is missing") \
	X("no free_plan",           p->free_plan = NULL,       "a function is missing") \
	X("no free_op",             p->free_op = NULL,         "a function is missing") \
	X("9 axes",  (p->axes = nine, p->num_axes = 9),        "it has more than 8 axes, or says so") \
	X("-1 axes",                p->num_axes = -1,          "it has more than 8 axes, or says so") \
	X("axes that are NULL",     p->axes = NULL,            "it has more than 8 axes, or says so") \
	X("an axis twice", (p->axes = same, p->num_axes = 3),  "two axes have one name") \
	X("long axes", (p->name = LETTERS_31, p->axes = too_long, p->num_axes = 8), "than 223 characters")
// clang-format on

static void unsound_plugins_are_refused(void **state)
{
	attune_plugin changed, *const p = &changed;
	(void)state;
	refuse("NULL", NULL, "the plug-in is NULL");
#define REFUSE(label, change, line) \
	*p = sound;                 \
	change;                     \
	refuse(label, p, line);
	FAULTS(REFUSE)
}

static void unsound_axes_are_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(axis_faults); i++) {
		const attune_plugin_axis two[] = { axes[0], axis_faults[i].axis };
		attune_plugin p = sound;
		p.axes = two + 1;
		p.num_axes = 1;
		refuse(axis_faults[i].label, &p, axis_faults[i].line);
		/* not only the first is looked at */
		if (strcmp("SPLITS", two[1].name ? two[1].name : "")) {
			p.axes = two;
			p.num_axes = 2;
			refuse(axis_faults[i].label, &p, axis_faults[i].line);
		}
	}
}

/* The last test: it fills the table. */
static void at_most_12_are_taken(void **state)
{
	static attune_plugin plugin[MOST_PLUGINS + 1];
	static char name[MOST_PLUGINS + 1][16];
	int num = 0, i = 0;
	(void)state;
	for (const struct kernel *k = attune_kernels; k->name; k++)
		num += k->plugin != NULL;
	for (; num <= MOST_PLUGINS; num++, i++) {
		plugin[i] = sound;
		snprintf(name[i], sizeof name[i], "more%d", i);
		plugin[i].name = name[i];
		if (num == MOST_PLUGINS)
			break;
		if (plugin_register(&plugin[i]))
			fail_msg("%d: %s", num, attune_last_error());
	}
	refuse("a 13th", &plugin[i], "there are 12 already, which is the most");
	assert_null(kernel_find(BACKEND_CPU, name[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unsound_plugins_are_refused),
		cmocka_unit_test(unsound_axes_are_refused),
		cmocka_unit_test(at_most_12_are_taken),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
