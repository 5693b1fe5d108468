/* SPDX-License-Identifier: Apache-2.0 */
/* jit.c - compiles sources at run time, through a cache on disk:
 *
 *   <key>.cubin | .co | .so   the binary
 *   <key>.txt                 the record (cache.c); also if the compiler refused
 *
 * The key is a hash of the compiler and its version, the architecture, the options and the
 * identity of the source. Files are written under temporary names and renamed, the .txt last, so
 * it exists only if all do. Two processes that compile the same key at once both do the work and
 * write the same files. A binary is removed and compiled again if its hash is not the record's or a
 * device does not load it. cache.c chooses the folder and limits its
 * size. */
#include "code_object.h"
#include "compile.h"
#include "compilers.h"
#include "harness/base/base.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/status.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

static const struct binary nothing = { .registers = -1,
				       .spill_bytes = -1,
				       .smem_static = -1,
				       .agprs = -1,
				       .sgprs = -1,
				       .spills = -1 };

/* The first installed compiler for such sources and GPUs; else the first one, though missing. */
static const struct compiler *compiler_for(const char *extension, const char *arch)
{
	const struct compiler *first = NULL;
	for (const struct compiler *c = compilers; c < compilers + COUNT(compilers); c++) {
		if (strcmp(extension, c->extension) || strncmp(arch, c->arch, strlen(c->arch)))
			continue;
		if (*c->version(arch))
			return c;
		first = first ? first : c;
	}
	return first;
}

const char *jit_version(enum backend b, const char *arch)
{
	const struct compiler *c = compiler_for(b == BACKEND_CPU ? ".c" : ".cu", arch);
	return c && *c->version(arch) ? c->title(arch) : "none";
}

static int make_key(char hex[33], const struct compiler *c, const struct job *j)
{
	const char *arch_flags = c == &compilers[CC] ? cpu_compile_flags(j->arch) : "";
	char source[33];
	const char *const part[] = { c->version(j->arch),
				     c == &compilers[CC] ? cc_command() : "",
				     j->arch,
				     arch_flags ? arch_flags : "",
				     j->flags,
				     j->entry,
				     source };
	XXH3_state_t *hash = XXH3_createState();
	errno = 0;
	int ok = hash && XXH3_128bits_reset(hash) == XXH_OK &&
		 source_identity_of(j->source, j->root, source);
	for (size_t i = 0; ok && i < COUNT(part); i++)
		ok = XXH3_128bits_update(hash, part[i], strlen(part[i]) + 1) == XXH_OK;
	if (ok)
		hash_text(hex, hash);
	else
		complain("%s: cannot be read: %s; ATTUNE_SOURCE names the kernels folder",
			 j->source, strerror(errno));
	XXH3_freeState(hash);
	return ok;
}

/* Sum over all functions of the number before `words` in ptxas' report; -1: no report. */
static int reported(const char *log, const char *words)
{
	int sum = -1;
	for (const char *at = log; (at = strstr(at, words)); at += strlen(words)) {
		const char *digit = at;
		while (digit > log && digit[-1] == ' ')
			digit--;
		while (digit > log && digit[-1] >= '0' && digit[-1] <= '9')
			digit--;
		sum = (sum < 0 ? 0 : sum) + atoi(digit);
	}
	return sum;
}

/* AMD code objects hold their resources. */
static void describe(struct binary *b)
{
	struct code_object o;
	code_object_read(&o, b->blob.data, b->blob.size, b->blob.entry);
	b->registers = o.vgprs;
	b->spill_bytes = o.scratch;
	b->smem_static = o.lds;
	b->agprs = o.agprs;
	b->sgprs = o.sgprs;
	b->spills = o.spills;
}

/* Completes what loading needs. A shared object is loaded by its path; code of a GPU is loaded from
 * memory, from the bytes in b. */
static int take(struct binary *b, const struct compiler *c, const struct job *j, const char *path)
{
	if (!(b->blob.entry = strdup(j->entry)))
		return 0;
	if (c == &compilers[CC]) {
		free((void *)b->blob.data);
		b->blob.data = NULL;
		b->blob.size = 0;
		return (b->blob.path = strdup(path)) != NULL;
	}
	if (!strcmp(c->arch, "gfx"))
		describe(b);
	return 1;
}

/* Reads the compiler's result and moves it to its place in the cache. */
static int keep(struct binary *b, const struct job *j, const char *binary)
{
	b->blob.data = read_file(j->made, &b->blob.size);
	if (b->blob.data)
		return keep_file(j->made, binary);
	complain("%s: is empty or cannot be read", j->made);
	unlink(j->made);
	return 0;
}

static int compile(struct binary *b, const struct compiler *c, struct job *j, const char *binary,
		   const char *txt)
{
	int status = c->compile(j);
	if (status == DIED) { /* once may be the system's fault, as when memory runs out */
		free(j->log);
		j->log = NULL;
		status = c->compile(j);
	}
	if (status == IMPOSSIBLE) {
		free(j->log);
		unlink(j->made);
		return IMPOSSIBLE;
	}
	b->log = j->log ? j->log : strdup("");
	if (status == DIED) { /* no record: the next process tries again */
		unlink(j->made);
		return REFUSED;
	}
	if (status == COMPILED && c == &compilers[NVRTC]) {
		b->registers = reported(b->log, " registers");
		b->spill_bytes = reported(b->log, " bytes spill stores");
		b->smem_static = reported(b->log, " bytes smem");
		if (b->registers >= 0 && b->smem_static < 0)
			b->smem_static = 0; /* ptxas leaves zeros out */
	}
	if ((status == COMPILED && !keep(b, j, binary)) || !record_write(b, j, status, txt) ||
	    (status == COMPILED && !take(b, c, j, binary)))
		return IMPOSSIBLE;
	return status;
}

static void no_compiler(const struct compiler *c, const char *arch)
{
	const char *hipcc = getenv("HIPCC");
	const char *rtc = c == &compilers[CLANG] ? hiprtc_here() : "";
	if (c == &compilers[CC])
		complain("no C compiler: \"%s\" does not run; install gcc, or name one in CC",
			 cc_command());
	else if (c == &compilers[CLANG] && hipcc && *hipcc)
		complain("HIPCC is \"%s\", which makes no code for %s, and %s%s: name a clang that "
			 "does, such as clang-22 with lld-22",
			 hipcc, arch, *rtc ? rtc : "there is no hipRTC",
			 *rtc ? " does not know it" : "");
	else if (c == &compilers[CLANG])
		complain(
		    "no compiler for %s%s%s%s: install clang-22 and lld-22 (Debian has them in "
		    "its security updates) or ROCm, or name a clang in HIPCC",
		    arch, *rtc ? " (" : "", rtc, *rtc ? " does not know it)" : "");
	else
		complain("no NVRTC (libnvrtc.so.13 or .12): install the CUDA toolkit, or name its "
			 "folder in CUDA_HOME");
}

static void trim_once(void)
{
	cache_trim(cache_root());
}

static int through_cache(struct binary *b, const struct compiler *c, struct job *j)
{
	static atomic_uint count;
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	char key[33], binary[PATH_MAX], txt[PATH_MAX];
	const char *cache = cache_root();
	if (!cache || !make_key(key, c, j))
		return IMPOSSIBLE;
	pthread_once(&once, trim_once);
	snprintf(binary, sizeof binary, "%s/%s.%s", cache, key, c->suffix);
	snprintf(txt, sizeof txt, "%s/%s.txt", cache, key);
	snprintf(j->made, sizeof j->made, "%s/%s.%d.%u", cache, key, (int)getpid(),
		 atomic_fetch_add(&count, 1));
	const int status = j->afresh ? -1 : record_read(b, txt, binary);
	b->cached = status == REFUSED || (status == COMPILED && take(b, c, j, binary));
	if (b->cached) {
		utimensat(AT_FDCWD, txt, NULL, 0); /* marks it as used, for cache_trim() */
		return status;
	}
	jit_free(b);
	if (access(txt, F_OK) == 0) { /* a damaged file, or one that does not load */
		unlink(txt);
		unlink(binary);
	}
	return compile(b, c, j, binary, txt);
}

/* The entry name depends on the kernel, which is the source's file name, and the flags. */
static void name_entry(struct job *j)
{
	char kernel[64];
	const char *slash = strrchr(j->source, '/'), *name = slash ? slash + 1 : j->source;
	snprintf(kernel, sizeof kernel, "%.*s", (int)strcspn(name, "."), name);
	entry_name(j->entry, kernel, j->flags);
}

static int compile_source(struct binary *b, const char *root, const char *source_path,
			  const char *flags, const char *arch, int afresh)
{
	struct job j = {
		.source = source_path, .root = root, .flags = flags, .arch = arch, .afresh = afresh
	};
	const char *slash = strrchr(source_path, '/'), *dot = strrchr(source_path, '.');
	const struct compiler *c = dot ? compiler_for(dot, arch) : NULL;
	struct timespec start, stop;
	*b = nothing;
	if (!c) {
		complain("%s: neither a .c nor a .cu file", source_path);
		return IMPOSSIBLE;
	}
	if (!*c->version(arch)) {
		no_compiler(c, arch);
		return IMPOSSIBLE;
	}
	name_entry(&j);
	snprintf(j.folder, sizeof j.folder, "%.*s", slash ? (int)(slash - source_path) : 1,
		 slash ? source_path : ".");
	clock_gettime(CLOCK_MONOTONIC, &start);
	const int status = through_cache(b, c, &j);
	clock_gettime(CLOCK_MONOTONIC, &stop);
	b->seconds = (double)(stop.tv_sec - start.tv_sec) + 1e-9 * (stop.tv_nsec - start.tv_nsec);
	if (status == IMPOSSIBLE)
		jit_free(b);
	return status;
}

int jit_compile_source(struct binary *b, const char *source_path, const char *flags,
		       const char *arch)
{
	return compile_source(b, source_root(), source_path, flags, arch, 0);
}

static int compile_kernel(struct binary *b, const char *root, const struct kernel *k,
			  const char *flags, const char *arch, int afresh)
{
	char path[PATH_MAX + 256], code_arch[CODE_ARCH];
	if (!kernel_path(path, sizeof path, k, root)) {
		*b = nothing;
		complain("%s: the path of its source is too long", k->name);
		return IMPOSSIBLE;
	}
	kernel_arch(code_arch, k, arch);
	return compile_source(b, root, path, flags, code_arch, afresh);
}

int jit_compile_below(struct binary *b, const char *root, const struct kernel *k, const char *flags,
		      const char *arch)
{
	return compile_kernel(b, root, k, flags, arch, 0);
}

/* The code of a plug-in is compiled already, and loaded by its own functions. */
static int take_plugin(struct binary *b, const struct kernel *k)
{
	*b = nothing;
	b->blob.entry = strdup(k->name);
	b->cached = 1;
	return b->blob.entry ? 0 : IMPOSSIBLE;
}

int jit_compile(struct binary *b, const struct kernel *k, const char *flags, const char *arch)
{
	if (k->plugin)
		return take_plugin(b, k);
	if (source_root())
		return jit_compile_below(b, source_root(), k, flags, arch);
	*b = nothing;
	complain("no sources of kernels: name the kernels folder in ATTUNE_SOURCE");
	return IMPOSSIBLE;
}

int jit_has(const struct kernel *k, const char *flags, const char *arch)
{
	if (k->plugin)
		return 1;
	char key[33], path[PATH_MAX + 256], txt[PATH_MAX + 64], code_arch[CODE_ARCH];
	const char *root = source_root(), *cache = cache_root();
	kernel_arch(code_arch, k, arch);
	if (!kernel_path(path, sizeof path, k, root))
		return 0;
	const struct job j = { .source = path, .root = root, .flags = flags, .arch = code_arch };
	const char *dot = strrchr(k->source, '.');
	const struct compiler *c = dot ? compiler_for(dot, code_arch) : NULL;
	if (!root || !cache || !c || !*c->version(code_arch) || !make_key(key, c, &j))
		return 0;
	snprintf(txt, sizeof txt, "%s/%s.txt", cache, key);
	return access(txt, R_OK) == 0;
}

/* Loads what was compiled, and sets *status. 1: it came from the cache and does not load. */
static int load(struct device *dev, struct code **code, struct binary *b, const char *name,
		const char *flags, int compiled, enum attune_status *status)
{
	if (compiled == IMPOSSIBLE)
		*status = fail(ATTUNE_UNSUPPORTED, "%s %s cannot be compiled here", name, flags);
	else if (compiled)
		*status =
		    fail(ATTUNE_UNSUPPORTED, "%s %s does not compile: %.300s", name, flags, b->log);
	else
		*status = dev->ops->load(dev, code, &b->blob);
	const int again = !compiled && *status && b->cached;
	jit_free(b);
	return again;
}

enum attune_status jit_load_source(struct device *dev, struct code **code, const char *source_path,
				   const char *flags, const char *arch)
{
	struct binary b;
	enum attune_status status;
	for (int afresh = 0, compiled; afresh < 2; afresh++) {
		compiled = compile_source(&b, source_root(), source_path, flags, arch, afresh);
		if (!load(dev, code, &b, source_path, flags, compiled, &status))
			break;
	}
	return status;
}

enum attune_status jit_load(struct device *dev, struct code **code, const char *root,
			    const struct kernel *k, const char *flags)
{
	struct binary b;
	enum attune_status status;
	root = root ? root : source_root();
	if (!root)
		return fail(ATTUNE_UNSUPPORTED, "%s: no sources of kernels", k->name);
	for (int afresh = 0, compiled; afresh < 2; afresh++) {
		compiled = compile_kernel(&b, root, k, flags, dev->info.arch, afresh);
		if (!load(dev, code, &b, k->name, flags, compiled, &status))
			break;
	}
	return status;
}

void jit_free(struct binary *b)
{
	free((void *)b->blob.data);
	free((void *)b->blob.path);
	free((void *)b->blob.entry);
	free(b->log);
	*b = nothing;
}
