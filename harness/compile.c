/* compile.c - the compilers that run while the program does: NVRTC for ".cu", found at
 * run time and declared here, and the machine's cc for ".c". */
#include "compile.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { MAX_WORDS = 64 };

/* ---- command lines -------------------------------------------------------------- */

struct words {
	char *v[MAX_WORDS + 1];
	int n, lost;
};

__attribute__((format(printf, 2, 3))) static void word(struct words *w, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	if (w->n == MAX_WORDS || vasprintf(&w->v[w->n], format, ap) < 0)
		w->lost = 1;
	else
		w->v[++w->n] = NULL;
	va_end(ap);
}

static void split(struct words *w, const char *text)
{
	for (size_t n; *(text += strspn(text, " ")); text += n) {
		n = strcspn(text, " ");
		word(w, "%.*s", (int)n, text);
	}
}

static void words_free(struct words *w)
{
	for (int i = 0; i < w->n; i++)
		free(w->v[i]);
}

static char *read_all(int fd)
{
	char *text = NULL;
	size_t n = 0, room = 0;
	for (;;) {
		if (room - n < 4096) {
			char *more = realloc(text, room = 2 * room + 8192);
			if (!more)
				break;
			text = more;
		}
		const ssize_t got = read(fd, text + n, room - n - 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	if (text)
		text[n] = '\0';
	return text;
}

/* Out of the terminal's process group: Ctrl-C stops attune, which lets a compiler
 * finish, rather than have its death look like a source that does not compile. */
static int spawn(pid_t *pid, char *const *argv, int out)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, dfl;
	sigemptyset(&none);
	sigemptyset(&dfl);
	sigaddset(&dfl, SIGINT);
	sigaddset(&dfl, SIGTERM);
	if (posix_spawn_file_actions_init(&actions))
		return ENOMEM;
	if (posix_spawnattr_init(&attr)) {
		posix_spawn_file_actions_destroy(&actions);
		return ENOMEM;
	}
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF |
					    POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigdefault(&attr, &dfl);
	posix_spawnattr_setsigmask(&attr, &none);
	int error = posix_spawn_file_actions_adddup2(&actions, out, 1);
	error = error ? error : posix_spawn_file_actions_adddup2(&actions, out, 2);
	error = error ? error : posix_spawnp(pid, argv[0], &actions, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return error;
}

/* The program's wait status, or -1 with errno; *output is all it wrote. */
static int run(char *const *argv, char **output)
{
	int fd[2], status = -1;
	pid_t pid;
	*output = NULL;
	if (pipe2(fd, O_CLOEXEC))
		return -1;
	const int error = spawn(&pid, argv, fd[1]);
	close(fd[1]);
	if (!error) {
		*output = read_all(fd[0]);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	close(fd[0]);
	errno = error;
	return error ? -1 : status;
}

/* ---- cc -------------------------------------------------------------------------- */

static char cc_version_text[256], cc_title_text[64];
static pthread_once_t cc_once = PTHREAD_ONCE_INIT;

const char *cc_command(void)
{
	const char *cc = getenv("CC");
	return cc && *cc ? cc : "cc";
}

/* Appends what `cc option` prints, in one line; 0 when it fails. */
static int cc_ask(const char *option)
{
	struct words w = { 0 };
	char *output = NULL;
	split(&w, cc_command());
	word(&w, "%s", option);
	const int ok = !w.lost && run(w.v, &output) == 0 && output;
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

static const char *cc_version(void)
{
	pthread_once(&cc_once, cc_find);
	return cc_version_text;
}

static const char *cc_title(void)
{
	pthread_once(&cc_once, cc_find);
	return cc_title_text;
}

static int cc_compile(struct job *j)
{
	struct words w = { 0 };
	const char *arch_flags = cpu_compile_flags(j->arch);
	if (!arch_flags) {
		complain("\"%s\" is no instruction set that attune compiles for on this machine",
			 j->arch);
		return IMPOSSIBLE;
	}
	split(&w, cc_command());
	split(&w, arch_flags);
	split(&w, j->flags);
	word(&w, "-iquote%s", j->folder);
	if (source_root())
		word(&w, "-iquote%s", source_root());
	split(&w, "-shared -fPIC -o");
	word(&w, "%s", j->made);
	word(&w, "%s", j->source);
	word(&w, "-lm");
	const int status = w.lost ? -1 : run(w.v, &j->log);
	words_free(&w);
	if (status != -1 && WIFEXITED(status) && WEXITSTATUS(status) != 127)
		return WEXITSTATUS(status) ? REFUSED : COMPILED;
	complain("%s: %s could not run: %s", j->source, cc_command(),
		 status == -1          ? strerror(errno)
		 : WIFSIGNALED(status) ? strsignal(WTERMSIG(status))
				       : "its parts are missing");
	return IMPOSSIBLE;
}

/* ---- NVRTC ------------------------------------------------------------------------ */

typedef void *program;
static struct {
	int (*Version)(int *major, int *minor);
	int (*CreateProgram)(program *, const char *source, const char *name, int num_headers,
			     const char *const *headers, const char *const *names);
	int (*CompileProgram)(program, int num_options, const char *const *options);
	int (*GetProgramLogSize)(program, size_t *);
	int (*GetProgramLog)(program, char *);
	int (*GetCUBINSize)(program, size_t *);
	int (*GetCUBIN)(program, char *);
	int (*DestroyProgram)(program *);
	const char *(*GetErrorString)(int);
} nvrtc;
enum { NVRTC_SUCCESS = 0, NVRTC_ERROR_COMPILATION = 6 };

static char nvrtc_version_text[32];
static pthread_once_t nvrtc_once = PTHREAD_ONCE_INIT;

static void *nvrtc_open(const char *folder, const char *below)
{
	static const char *const names[] = { "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so" };
	char path[PATH_MAX];
	for (size_t i = 0; folder && i < COUNT(names); i++) {
		snprintf(path, sizeof path, "%s%s%s", folder, below, names[i]);
		void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (library)
			return library;
	}
	return NULL;
}

static void nvrtc_find(void)
{
#define SYMBOL(name)                               \
	{                                          \
		"nvrtc" #name, (void *)&nvrtc.name \
	}
	const struct {
		const char *name;
		void *place;
	} symbols[] = { SYMBOL(Version),           SYMBOL(CreateProgram),  SYMBOL(CompileProgram),
			SYMBOL(GetProgramLogSize), SYMBOL(GetProgramLog),  SYMBOL(GetCUBINSize),
			SYMBOL(GetCUBIN),          SYMBOL(DestroyProgram), SYMBOL(GetErrorString) };
#undef SYMBOL
	int major, minor;
	void *library = nvrtc_open(getenv("CUDA_HOME"), "/lib64/");
	library = library ? library : nvrtc_open("", "");
	library = library ? library : nvrtc_open("/usr/local/cuda", "/lib64/");
	for (size_t i = 0; i < COUNT(symbols); i++) {
		void *symbol = library ? dlsym(library, symbols[i].name) : NULL;
		if (!symbol)
			return;
		memcpy(symbols[i].place, &symbol, sizeof symbol);
	}
	if (nvrtc.Version(&major, &minor) == NVRTC_SUCCESS)
		snprintf(nvrtc_version_text, sizeof nvrtc_version_text, "nvrtc %d.%d", major,
			 minor);
}

static const char *nvrtc_version(void)
{
	pthread_once(&nvrtc_once, nvrtc_find);
	return nvrtc_version_text;
}

static void nvrtc_options(struct words *w, const struct job *j)
{
	const char *home = getenv("CUDA_HOME");
	char include[PATH_MAX];
	word(w, "--gpu-architecture=%s", j->arch);
	split(w, "-std=c++17 -default-device --ptxas-options=-v");
	word(w, "-I%s", j->folder);
	if (source_root())
		word(w, "-I%s", source_root());
	snprintf(include, sizeof include, "%s/include", home && *home ? home : "/usr/local/cuda");
	if (access(include, R_OK) == 0)
		word(w, "-I%s", include);
	split(w, j->flags);
}

int write_file(const char *path, const void *bytes, size_t n)
{
	FILE *f = fopen(path, "wbe");
	const int ok = f && fwrite(bytes, 1, n, f) == n;
	if ((f && fclose(f)) || !ok) {
		complain("%s: cannot write: %s", path, strerror(errno));
		return 0;
	}
	return 1;
}

/* The log, and after success the cubin to j->made. */
static int nvrtc_take(struct job *j, program p, int rc)
{
	size_t n = 0;
	if (nvrtc.GetProgramLogSize(p, &n) == NVRTC_SUCCESS && (j->log = calloc(1, n + 1)) &&
	    nvrtc.GetProgramLog(p, j->log) != NVRTC_SUCCESS)
		j->log[0] = '\0';
	if (rc == NVRTC_ERROR_COMPILATION)
		return REFUSED;
	char *cubin = NULL;
	if (rc == NVRTC_SUCCESS)
		rc = nvrtc.GetCUBINSize(p, &n);
	if (rc == NVRTC_SUCCESS && (cubin = malloc(n)))
		rc = nvrtc.GetCUBIN(p, cubin);
	const int ok = cubin && rc == NVRTC_SUCCESS;
	if (!ok)
		complain("%s for %s: %s %s", j->source, j->arch, nvrtc.GetErrorString(rc),
			 j->log ? j->log : "");
	const int written = ok && write_file(j->made, cubin, n);
	free(cubin);
	return written ? COMPILED : IMPOSSIBLE;
}

static int nvrtc_here(struct job *j)
{
	struct words w = { 0 };
	program p = NULL;
	int result = IMPOSSIBLE;
	char *text = source_text(j->source);
	nvrtc_options(&w, j);
	int rc = text && !w.lost ? nvrtc.CreateProgram(&p, text, j->source, 0, NULL, NULL) : -1;
	if (rc == NVRTC_SUCCESS) {
		rc = nvrtc.CompileProgram(p, w.n, (const char *const *)w.v);
		result = nvrtc_take(j, p, rc);
		nvrtc.DestroyProgram(&p);
	} else {
		complain("%s: NVRTC cannot take it: %s", j->source,
			 rc < 0 ? "out of memory" : nvrtc.GetErrorString(rc));
	}
	free(text);
	words_free(&w);
	return result;
}

/* In a process of its own: NVRTC starts the CUDA driver, and a driver started here
 * could not be used by the workers that a sweep forks later. A compiler that crashes
 * is survived, too. */
static int nvrtc_compile(struct job *j)
{
	int fd[2], status = -1;
	if (pipe2(fd, O_CLOEXEC)) {
		complain("%s: no pipe to a compiler: %s", j->source, strerror(errno));
		return IMPOSSIBLE;
	}
	const pid_t pid = fork();
	if (!pid) {
		setpgid(0, 0); /* as in spawn() */
		const int result = nvrtc_here(j);
		const size_t n = j->log ? strlen(j->log) : 0;
		for (size_t sent = 0; sent < n;) {
			const ssize_t some = write(fd[1], j->log + sent, n - sent);
			if (some <= 0)
				break;
			sent += (size_t)some;
		}
		_exit(result);
	}
	close(fd[1]);
	if (pid > 0) {
		j->log = read_all(fd[0]);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	close(fd[0]);
	if (pid > 0 && WIFEXITED(status))
		return WEXITSTATUS(status);
	complain("%s: NVRTC could not run: %s", j->source,
		 pid < 0 ? strerror(errno) : strsignal(WTERMSIG(status)));
	return IMPOSSIBLE;
}

const struct compiler compilers[2] = {
	[BACKEND_CPU] = { "cc", ".c", "so", cc_version, cc_title, cc_compile },
	[BACKEND_GPU] = { "NVRTC", ".cu", "cubin", nvrtc_version, nvrtc_version, nvrtc_compile },
};
