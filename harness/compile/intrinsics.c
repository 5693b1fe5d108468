/* intrinsics.c - a precompiled header of <immintrin.h>, which GCC takes a third of the time of a CPU kernel to
 * read. In the cache folder:
 *
 *   <key>.h       includes <immintrin.h>; compilations of kernels begin with it (-include). A
 *                 comment in it has the hash of the other file.
 *   <key>.h.gch   the same, precompiled; where it is missing or its flags differ, GCC reads <key>.h
 *
 * The binaries are the same with it and without. A damaged file is made again. The key is a hash of
 * the compiler and its flags. */
#include "compile.h"
#include "compilers.h"
#include "harness/base/base.h"
#include "kernels/device/device.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char header[PATH_MAX], of_arch[16];

static int is_gcc(const char *cc)
{
	struct words w = { 0 };
	char *output = NULL;
	split(&w, cc);
	word(&w, "--version");
	const int is = !w.lost && run_words(&w, &output) == 0 && output &&
		       strstr(output, "Free Software Foundation") != NULL;
	free(output);
	words_free(&w);
	return is;
}

/* Makes FROM.gch of the header FROM. */
static int precompile(const char *cc, const char *from, const char *flags)
{
	struct words w = { 0 };
	char *output = NULL;
	split(&w, cc);
	split(&w, flags);
	split(&w, "-fPIC -x c-header -o");
	word(&w, "%s.gch", from);
	word(&w, "%s", from);
	const int done = !w.lost && run_words(&w, &output) == 0;
	free(output);
	words_free(&w);
	return done;
}

static int write_header(const char *path, const char *hash)
{
	char text[80];
	const int n = snprintf(text, sizeof text, "#include <immintrin.h>\n/* %s */\n", hash);
	return write_file(path, text, (size_t)n);
}

/* Whether the precompiled header is as it was made. */
static int is_sound(void)
{
	char gch[PATH_MAX + 8], hash[HASH_TEXT];
	snprintf(gch, sizeof gch, "%s.gch", header);
	char *text = source_text(header);
	const int sound = text && file_hash(gch, hash) && strstr(text, hash);
	free(text);
	return sound;
}

/* Other processes may make the same files, so each is renamed when it is complete. The header comes last:
 * where it exists, the other one does. */
static int make_header(const char *cc, const char *flags)
{
	char hash[HASH_TEXT];
	char own[PATH_MAX + 32], own_gch[PATH_MAX + 40], gch[PATH_MAX + 8];
	snprintf(own, sizeof own, "%.*s.%d.0.h", (int)strlen(header) - 2, header, (int)getpid());
	snprintf(own_gch, sizeof own_gch, "%s.gch", own);
	snprintf(gch, sizeof gch, "%s.gch", header);
	const int done = write_header(own, "") && precompile(cc, own, flags) &&
			 file_hash(own_gch, hash) && keep_file(own_gch, gch) &&
			 write_header(own, hash) && keep_file(own, header);
	if (!done) {
		unlink(own_gch);
		unlink(own);
	}
	return done;
}

/* Sets `header` for an instruction set; "": none. */
static void find_header(const char *cc, const char *version, const char *arch)
{
	const char *flags = cpu_compile_flags(arch), *cache = cache_root();
	char text[1024];
	snprintf(of_arch, sizeof of_arch, "%s", arch);
	header[0] = '\0';
	if (!flags || !cache || strncmp(arch, "avx", 3) || !is_gcc(cc))
		return;
	const int n = snprintf(text, sizeof text, "%s %s %s", version, cc, flags);
	if (n < 0 || (size_t)n >= sizeof text)
		return;
	char key[HASH_TEXT];
	hash_text(key, text, (size_t)n);
	snprintf(header, sizeof header, "%s/%s.h", cache, key);
	if (!is_sound() && !make_header(cc, flags))
		header[0] = '\0';
}

int intrinsics_header(char path[PATH_MAX], const char *cc, const char *version, const char *arch)
{
	pthread_mutex_lock(&lock);
	if (strcmp(arch, of_arch))
		find_header(cc, version, arch);
	snprintf(path, PATH_MAX, "%s", header);
	pthread_mutex_unlock(&lock);
	return *path && access(path, R_OK) == 0;
}
