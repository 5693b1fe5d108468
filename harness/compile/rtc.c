/* SPDX-License-Identifier: Apache-2.0 */
/* rtc.c - compiles with NVIDIA's NVRTC and AMD's hipRTC, libraries loaded at run time. Their
 * interfaces differ in names only. Up to ROCm 5 hipRTC is part of the HIP runtime. */
#include "compile.h"
#include "compilers.h"
#include "harness/base/base.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void *program;
struct rtc {
	int (*Version)(int *major, int *minor);
	int (*CreateProgram)(program *, const char *source, const char *name, int num_headers,
			     const char *const *headers, const char *const *names);
	int (*CompileProgram)(program, int num_options, const char *const *options);
	int (*GetProgramLogSize)(program, size_t *);
	int (*GetProgramLog)(program, char *);
	int (*GetCodeSize)(program, size_t *);
	int (*GetCode)(program, char *);
	int (*DestroyProgram)(program *);
	const char *(*GetErrorString)(int);
	char title[64]; /* "nvrtc 13.0"; "": not found */
};
enum { RTC_SUCCESS = 0, RTC_ERROR_COMPILATION = 6 };

static struct rtc nvrtc, hiprtc;

#define AT(name) offsetof(struct rtc, name)
#define ALIKE(name)                                   \
	{                                             \
		AT(name),                             \
		{                                     \
			"nvrtc" #name, "hiprtc" #name \
		}                                     \
	}
static const struct {
	size_t place;
	const char *symbol[2];
} symbols[] = {
	ALIKE(Version),
	ALIKE(CreateProgram),
	ALIKE(CompileProgram),
	ALIKE(GetProgramLogSize),
	ALIKE(GetProgramLog),
	{ AT(GetCodeSize), { "nvrtcGetCUBINSize", "hiprtcGetCodeSize" } },
	{ AT(GetCode), { "nvrtcGetCUBIN", "hiprtcGetCode" } },
	ALIKE(DestroyProgram),
	ALIKE(GetErrorString),
};

/* ---- finding ---------------------------------------------------------------------- */

static void *open_first(const char *folder, const char *const *names)
{
	char path[PATH_MAX + 32];
	void *library = NULL;
	for (; folder && *names && !library; names++) {
		snprintf(path, sizeof path, "%s%s", folder, *names);
		library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	return library;
}

/* 0: a function is missing. */
static int find(struct rtc *r, int which, void *library)
{
	for (size_t i = 0; i < COUNT(symbols); i++) {
		void *symbol = library ? dlsym(library, symbols[i].symbol[which]) : NULL;
		if (!symbol)
			return 0;
		memcpy((char *)r + symbols[i].place, &symbol, sizeof symbol);
	}
	return 1;
}

static void nvrtc_find(void)
{
	static const char *const names[] = { "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
					     NULL };
	char home[PATH_MAX];
	const char *cuda_home = getenv("CUDA_HOME");
	snprintf(home, sizeof home, "%s/lib64/", cuda_home ? cuda_home : "");
	void *library = cuda_home ? open_first(home, names) : NULL;
	library = library ? library : open_first("", names);
	library = library ? library : open_first("/usr/local/cuda/lib64/", names);
	int major, minor;
	if (find(&nvrtc, 0, library) && nvrtc.Version(&major, &minor) == RTC_SUCCESS)
		snprintf(nvrtc.title, sizeof nvrtc.title, "nvrtc %d.%d", major, minor);
}

/* The compiler of a runtime lies in the same folder, or is the runtime itself. */
static void *open_beside_runtime(const char *runtime, const char *const *names)
{
	char folder[PATH_MAX];
	const char *slash = strrchr(runtime, '/');
	snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash + 1 - runtime) : 0, runtime);
	void *library = open_first(folder, names);
	return library ? library : dlopen(runtime, RTLD_NOW | RTLD_LOCAL);
}

/* Takes the version from the resolved file name, "libamdhip64.so.5.2.21153". hiprtcVersion() would
 * start the driver in this process, and returns the same number for all old versions. */
static void title_by_file(struct rtc *r)
{
	Dl_info in;
	void *symbol;
	memcpy(&symbol, &r->Version, sizeof symbol);
	char *path = dladdr(symbol, &in) && in.dli_fname ? realpath(in.dli_fname, NULL) : NULL;
	const char *digits = path ? strstr(path, ".so.") : NULL;
	snprintf(r->title, sizeof r->title, "hiprtc%s%s", digits ? " " : "",
		 digits ? digits + 4 : "");
	free(path);
}

static void hiprtc_find(void)
{
	static const char *const own[] = { "libhiprtc.so.7", "libhiprtc.so.6", NULL };
	static const char *const all[] = { "libhiprtc.so.7", "libhiprtc.so.6", "libamdhip64.so.5",
					   "libhiprtc.so",   "libamdhip64.so", NULL };
	const char *runtime = getenv("ATTUNE_HIP_LIBRARY");
	void *library =
	    runtime && *runtime ? open_beside_runtime(runtime, own) : open_first("", all);
	if (!library && !(runtime && *runtime))
		library = open_first("/opt/rocm/lib/", all);
	if (find(&hiprtc, 1, library))
		title_by_file(&hiprtc);
}

static pthread_once_t nvrtc_once = PTHREAD_ONCE_INIT, hiprtc_once = PTHREAD_ONCE_INIT;

const char *nvrtc_version(const char *arch)
{
	(void)arch;
	pthread_once(&nvrtc_once, nvrtc_find);
	return nvrtc.title;
}

const char *hiprtc_here(void)
{
	pthread_once(&hiprtc_once, hiprtc_find);
	return hiprtc.title;
}

/* Whether hipRTC compiles for this GPU: a child process compiles one empty line. hipRTC of ROCm 5
 * calls abort() if it does not know the GPU, and crashes on a source without a line. */
static int hiprtc_takes(const char *arch)
{
	int status = -1;
	const pid_t pid = fork();
	if (!pid) {
		char offload[64];
		const char *option = offload;
		program p;
		snprintf(offload, sizeof offload, "--offload-arch=%s", arch);
		dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
		setpgid(0, 0);
		_exit(hiprtc.CreateProgram(&p, "\n", "empty", 0, NULL, NULL) ||
		      hiprtc.CompileProgram(p, 1, &option));
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && WIFEXITED(status) && !WEXITSTATUS(status);
}

/* The answers for MAX_ARCHS GPUs are kept; a further GPU replaces the last one. */
const char *hiprtc_version(const char *arch)
{
	enum { MAX_ARCHS = 8 };
	static struct {
		char arch[16];
		int takes;
	} known[MAX_ARCHS];
	static int num_known;
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	int i = 0;
	if (!*hiprtc_here())
		return "";
	pthread_mutex_lock(&lock);
	while (i < num_known && strcmp(known[i].arch, arch))
		i++;
	if (i == num_known) {
		num_known += num_known < MAX_ARCHS;
		i = num_known - 1;
		snprintf(known[i].arch, sizeof known[i].arch, "%s", arch);
		known[i].takes = hiprtc_takes(arch);
	}
	const int takes = known[i].takes;
	pthread_mutex_unlock(&lock);
	return takes ? hiprtc.title : "";
}

/* ---- compiling -------------------------------------------------------------------- */

static void common_options(struct words *w, const struct job *j)
{
	split(w, "-std=c++17");
	word(w, "-I%s", j->folder);
	if (j->root)
		word(w, "-I%s", j->root);
	word(w, "-DENTRY=%s", j->entry);
}

static void nvrtc_options(struct words *w, const struct job *j)
{
	const char *home = getenv("CUDA_HOME");
	char include[PATH_MAX];
	word(w, "--gpu-architecture=%s", j->arch);
	split(w, "-default-device --ptxas-options=-v");
	common_options(w, j);
	snprintf(include, sizeof include, "%s/include", home && *home ? home : "/usr/local/cuda");
	if (access(include, R_OK) == 0)
		word(w, "-I%s", include);
	split(w, j->flags);
}

static void hiprtc_options(struct words *w, const struct job *j)
{
	word(w, "--offload-arch=%s", j->arch);
	split(w, "-O3");
	common_options(w, j);
	split(w, j->flags);
}

/* hipRTC gets this before each source. Its built-in header defines __syncthreads_or, and so does
 * gpu_amd.h: the macro gives the function of gpu_amd.h another name. */
static const char hiprtc_prefix[] = "#ifdef __HIP__\n"
				    "#define __syncthreads_or syncthreads_or_of_source\n"
				    "#endif\n"
				    "#line 1\n";

static char *source_for(const struct rtc *r, const char *path)
{
	char *text = source_text(path), *whole = NULL;
	if (r != &hiprtc || !text)
		return text;
	if (asprintf(&whole, "%s%s", hiprtc_prefix, text) < 0)
		whole = NULL;
	free(text);
	return whole;
}

/* Stores the log, and after success writes the code to j->made. */
static int take(const struct rtc *r, struct job *j, program p, int rc)
{
	size_t n = 0;
	if (r->GetProgramLogSize(p, &n) == RTC_SUCCESS && (j->log = calloc(1, n + 1)) &&
	    r->GetProgramLog(p, j->log) != RTC_SUCCESS)
		j->log[0] = '\0';
	if (rc == RTC_ERROR_COMPILATION)
		return REFUSED;
	char *code = NULL;
	if (rc == RTC_SUCCESS)
		rc = r->GetCodeSize(p, &n);
	if (rc == RTC_SUCCESS && (code = malloc(n)))
		rc = r->GetCode(p, code);
	const int ok = code && rc == RTC_SUCCESS;
	if (!ok)
		complain("%s for %s: %s %s", j->source, j->arch, r->GetErrorString(rc),
			 j->log ? j->log : "");
	const int written = ok && write_file(j->made, code, n);
	free(code);
	return written ? COMPILED : IMPOSSIBLE;
}

static int compile_here(const struct rtc *r, struct job *j)
{
	struct words w = { 0 };
	program p = NULL;
	int result = IMPOSSIBLE;
	char *text = source_for(r, j->source);
	(r == &nvrtc ? nvrtc_options : hiprtc_options)(&w, j);
	int rc = text && !w.lost ? r->CreateProgram(&p, text, j->source, 0, NULL, NULL) : -1;
	if (rc == RTC_SUCCESS) {
		rc = r->CompileProgram(p, w.n, (const char *const *)w.v);
		result = take(r, j, p, rc);
		r->DestroyProgram(&p);
	} else {
		complain("%s: %s cannot take it: %s", j->source, r->title,
			 rc < 0 ? "out of memory" : r->GetErrorString(rc));
	}
	free(text);
	words_free(&w);
	return result;
}

/* The result of the child. hipRTC calls abort() on some internal errors: a refusal. */
static int read_status(const struct rtc *r, struct job *j, int status)
{
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	if (r == &hiprtc && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) {
		free(j->log);
		if (asprintf(&j->log, "%s aborts for %s\n", r->title, j->arch) < 0)
			j->log = NULL;
		return REFUSED;
	}
	complain("%s: %s could not run: %s", j->source, r->title, strsignal(WTERMSIG(status)));
	return IMPOSSIBLE;
}

static void send_log(int fd, const char *log)
{
	const size_t n = log ? strlen(log) : 0;
	for (size_t sent = 0; sent < n;) {
		const ssize_t some = write(fd, log + sent, n - sent);
		if (some <= 0)
			break;
		sent += (size_t)some;
	}
}

/* Compiles in a child process: these libraries start the GPU's driver, and a driver started here
 * could not be used by the workers that a sweep forks later. A compiler may crash, too. */
static int compile_in_child(const struct rtc *r, struct job *j)
{
	int fd[2], status = -1;
	if (pipe2(fd, O_CLOEXEC)) {
		complain("%s: no pipe to a compiler: %s", j->source, strerror(errno));
		return IMPOSSIBLE;
	}
	const pid_t pid = fork();
	if (!pid) {
		setpgid(0, 0); /* as in spawn() of process.c */
		const int result = compile_here(r, j);
		send_log(fd[1], j->log);
		_exit(result);
	}
	close(fd[1]);
	if (pid > 0) {
		j->log = read_all(fd[0]);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	close(fd[0]);
	if (pid > 0)
		return read_status(r, j, status);
	complain("%s: %s could not run: %s", j->source, r->title, strerror(errno));
	return IMPOSSIBLE;
}

int nvrtc_compile(struct job *j)
{
	return compile_in_child(&nvrtc, j);
}

int hiprtc_compile(struct job *j)
{
	return compile_in_child(&hiprtc, j);
}
