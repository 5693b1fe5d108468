/* SPDX-License-Identifier: Apache-2.0 */
/* compile.c - the table of run-time compilers; the machine's cc for ".c", and clang for ".cu" of AMD
 * GPUs. rtc.c has the others. */
#include "compilers.h"
#include "harness/base/base.h"
#include "kernels/device/device.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- clang ------------------------------------------------------------------------- */
/* Compiles for AMD GPUs with an installed clang, found by trial once for each
 * architecture. Sources need no header and no device library, so a plain clang with the lld of its
 * version suffices. */

/* Every ROCm from 5.4 on loads code objects of version 5. */
static const char clang_flags[] = "-x hip --offload-device-only --no-gpu-bundle-output -nogpuinc "
				  "-nogpulib -O3 -mcode-object-version=5 -std=c++17";

/* Tried in this order, after ROCm's own, unless HIPCC is set. */
static const char *const names[] = { "clang-22", "clang-21", "clang-20",
				     "clang-19", "clang",    "hipcc" };

enum { MAX_ARCHS = 8 };
static struct found {
	char arch[16], command[PATH_MAX], version[PATH_MAX + 512],
	    title[64]; /* version "": none here */
} found[MAX_ARCHS];
static int num_found;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void common_words(struct words *w, const char *command, const char *arch)
{
	split(w, command);
	split(w, clang_flags);
	word(w, "--offload-arch=%s", arch);
}

/* Whether it compiles an empty file for that GPU. */
static int takes(const char *command, const char *arch)
{
	struct words w = { 0 };
	char *output = NULL;
	common_words(&w, command, arch);
	split(&w, "/dev/null -o /dev/null");
	const int status = w.lost ? -1 : run_words(&w, &output);
	free(output);
	words_free(&w);
	return status == 0;
}

/* version: its --version in one line; title: "clang 22.1.8" from "Debian clang version 22.1.8". */
static void ask_version(struct found *f)
{
	static const char words[] = "clang version ";
	struct words w = { 0 };
	char *output = NULL;
	split(&w, f->command);
	split(&w, "--version");
	const int ok = !w.lost && run_words(&w, &output) == 0 && output;
	const char *at = ok ? strstr(output, words) : NULL;
	at = at ? at + strlen(words) : "";
	snprintf(f->title, sizeof f->title, "clang %.*s", (int)strcspn(at, " \n"), at);
	snprintf(f->version, sizeof f->version, "%s: %.500s", f->command, ok ? output : "clang");
	for (char *c = f->version; *c; c++)
		*c = *c == '\n' ? ' ' : *c;
	free(output);
	words_free(&w);
}

static int try_command(struct found *f, const char *command)
{
	if (!takes(command, f->arch))
		return 0;
	snprintf(f->command, sizeof f->command, "%s", command);
	ask_version(f);
	return 1;
}

static void find(struct found *f)
{
	const char *named = getenv("HIPCC"), *rocm = getenv("ROCM_PATH");
	char path[PATH_MAX];
	if (named) {
		if (*named)
			try_command(f, named);
		return;
	}
	snprintf(path, sizeof path, "%s/llvm/bin/clang", rocm && *rocm ? rocm : "/opt/rocm");
	int ok = try_command(f, path);
	for (size_t i = 0; !ok && i < COUNT(names); i++)
		ok = try_command(f, names[i]);
}

/* The clang for this GPU. Beyond MAX_ARCHS, the last entry is searched again. */
static const struct found *find_for(const char *arch)
{
	int i = 0;
	pthread_mutex_lock(&lock);
	while (i < num_found && strcmp(found[i].arch, arch))
		i++;
	if (i == num_found) {
		num_found += num_found < MAX_ARCHS;
		i = num_found - 1;
		found[i] = (struct found){ 0 };
		snprintf(found[i].arch, sizeof found[i].arch, "%s", arch);
		find(&found[i]);
	}
	pthread_mutex_unlock(&lock);
	return &found[i];
}

static const char *clang_version(const char *arch)
{
	return find_for(arch)->version;
}

static const char *clang_title(const char *arch)
{
	return find_for(arch)->title;
}

static int clang_compile(struct job *j)
{
	const char *command = find_for(j->arch)->command;
	struct words w = { 0 };
	common_words(&w, command, j->arch);
	word(&w, "-I%s", j->folder);
	if (j->root)
		word(&w, "-I%s", j->root);
	split(&w, j->flags);
	word(&w, "-DENTRY=%s", j->entry);
	word(&w, "%s", j->source);
	word(&w, "-o%s", j->made);
	const int result = run_compiler(&w, j, command);
	words_free(&w);
	return result;
}

/* ---- cc, and the table ------------------------------------------------------------- */

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
