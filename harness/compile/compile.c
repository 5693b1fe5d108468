/* compile.c - the table of run-time compilers, and the machine's cc for ".c"; clang.c and rtc.c
 * have those for ".cu". */
#include "compilers.h"
#include "harness/base/base.h"
#include "kernels/device/device.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char cc_version_text[256], cc_title_text[64];
static pthread_once_t cc_once = PTHREAD_ONCE_INIT;

const char *cc_command(void)
{
	const char *cc = getenv("CC");
	return cc && *cc ? cc : "cc";
}

/* Appends the first line of `cc option`; 0: it failed. */
static int cc_ask(const char *option)
{
	struct words w = { 0 };
	char *output = NULL;
	split(&w, cc_command());
	word(&w, "%s", option);
	const int ok = !w.lost && run_words(&w, &output) == 0 && output;
	const size_t n = strlen(cc_version_text);
	if (ok)
		snprintf(cc_version_text + n, sizeof cc_version_text - n, " %.*s",
			 (int)strcspn(output, "\n"), output);
	free(output);
	words_free(&w);
	return ok;
}

static void cc_find(void)
{
	snprintf(cc_version_text, sizeof cc_version_text, "cc");
	if ((!cc_ask("-dumpfullversion") && !cc_ask("-dumpversion")) || !cc_ask("-dumpmachine"))
		cc_version_text[0] = '\0';
	snprintf(cc_title_text, sizeof cc_title_text, "%.*s",
		 (int)(3 + strcspn(cc_version_text + 3, " ")), cc_version_text);
}

static const char *cc_version(const char *arch)
{
	(void)arch;
	pthread_once(&cc_once, cc_find);
	return cc_version_text;
}

static const char *cc_title(const char *arch)
{
	(void)arch;
	pthread_once(&cc_once, cc_find);
	return cc_title_text;
}

static int cc_compile(struct job *j)
{
	const char *arch_flags = cpu_compile_flags(j->arch);
	struct words w = { 0 };
	if (!arch_flags) {
		complain("\"%s\" is no instruction set that attune compiles for on this machine",
			 j->arch);
		return IMPOSSIBLE;
	}
	split(&w, cc_command());
	split(&w, arch_flags);
	split(&w, j->flags);
	word(&w, "-DENTRY=%s", j->entry);
	word(&w, "-iquote%s", j->folder);
	if (j->root)
		word(&w, "-iquote%s", j->root);
	split(&w, "-pipe -shared -fPIC -o");
	word(&w, "%s", j->made);
	word(&w, "%s", j->source);
	word(&w, "-lm");
	const int result = run_compiler(&w, j, cc_command());
	words_free(&w);
	return result;
}

const struct compiler compilers[NUM_COMPILERS] = {
	[CC] = { "cc", ".c", "", "so", cc_version, cc_title, cc_compile },
	[CLANG] = { "clang", ".cu", "gfx", "co", clang_version, clang_title, clang_compile },
	[HIPRTC] = { "hipRTC", ".cu", "gfx", "co", hiprtc_version, hiprtc_version, hiprtc_compile },
	[NVRTC] = { "NVRTC", ".cu", "sm_", "cubin", nvrtc_version, nvrtc_version, nvrtc_compile },
};
