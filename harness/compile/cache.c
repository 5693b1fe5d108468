/* SPDX-License-Identifier: Apache-2.0 */
/* cache.c - the cache of compiled binaries: its folder, its records, and the limit of its size.
 * Processes load code from the folder, so it is taken only if it belongs to the user and no other
 * user may write in it:
 *
 *   ATTUNE_CACHE
 *   attune/ in XDG_CACHE_HOME, else in .cache/ of HOME, else of the home folder that the system
 *   knows; such a folder must belong to the user: root may have another user's HOME
 *   a new folder in TMPDIR, which is removed when the process ends */
#include "compile.h"
#include "compilers.h"
#include "harness/base/base.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char cache[PATH_MAX], why[PATH_MAX + 100]; /* why the last folder was not taken */
static pid_t owner_of_temporary;
static pthread_once_t once = PTHREAD_ONCE_INIT;

__attribute__((format(printf, 1, 2))) static int refuse(const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	vsnprintf(why, sizeof why, format, ap);
	va_end(ap);
	return 0;
}

/* Whether a folder, or the one that a link leads to, is the user's. others: permissions that other
 * users must not have. */
static int is_own(const char *path, mode_t others)
{
	struct stat s;
	if (stat(path, &s))
		return refuse("%s: %s", path, strerror(errno));
	if (!S_ISDIR(s.st_mode))
		return refuse("%s: not a folder", path);
	if (s.st_uid != geteuid())
		return refuse("%s: belongs to user %d, not to user %d", path, (int)s.st_uid,
			      (int)geteuid());
	if (s.st_mode & others)
		return refuse("%s: other users may write there (chmod go-w)", path);
	return 1;
}

/* Creates the folder and those above it. */
static int make_folder(const char *path)
{
	char part[PATH_MAX];
	snprintf(part, sizeof part, "%s", path);
	for (char *at = part + 1; (at = strchr(at, '/')); *at++ = '/') {
		*at = '\0';
		mkdir(part, 0700); /* if it fails, the last mkdir says why */
	}
	return mkdir(part, 0700) == 0 || errno == EEXIST || refuse("%s: %s", path, strerror(errno));
}

static int take(const char *folder, const char *below)
{
	if (snprintf(cache, sizeof cache, "%s%s", folder, below) >= (int)sizeof cache - 64)
		return refuse("%.40s...: its name is too long", folder);
	if (!make_folder(cache) || !is_own(cache, S_IWGRP | S_IWOTH))
		return 0;
	return access(cache, W_OK | X_OK) == 0 || refuse("%s: %s", cache, strerror(errno));
}

/* `base` must be the user's, too: its owner could replace the folders below it at any time. */
static int take_below(const char *base, const char *below)
{
	if (!base || *base != '/')
		return 0;
	return (access(base, F_OK) || is_own(base, S_IWOTH)) && take(base, below);
}

static const char *known_home(void)
{
	const struct passwd *user = getpwuid(geteuid());
	return user ? user->pw_dir : NULL;
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at)
{
	(void)s;
	(void)kind;
	(void)at;
	return remove(path);
}

static void remove_temporary(void)
{
	if (getpid() == owner_of_temporary)
		nftw(cache, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static int take_temporary(void)
{
	const char *given = getenv("TMPDIR"), *folder = given && *given ? given : "/tmp";
	if (snprintf(cache, sizeof cache, "%s/attune-cache.XXXXXX", folder) >=
	    (int)sizeof cache - 64)
		return refuse("%.40s...: its name is too long", folder);
	if (!mkdtemp(cache))
		return refuse("%s: %s", cache, strerror(errno));
	owner_of_temporary = getpid();
	if (*why)
		complain("%s; compiled kernels are kept only until the end of this command: name a "
			 "folder of your own in ATTUNE_CACHE",
			 why);
	return !atexit(remove_temporary) || refuse("out of memory");
}

static void find_cache(void)
{
	const char *given = getenv("ATTUNE_CACHE");
	if (given && *given ? take(given, "")
			    : take_below(getenv("XDG_CACHE_HOME"), "/attune") ||
				  take_below(getenv("HOME"), "/.cache/attune") ||
				  take_below(known_home(), "/.cache/attune") || take_temporary())
		return;
	complain("compiled kernels cannot be kept: %s; name a folder of your own in ATTUNE_CACHE",
		 why);
	cache[0] = '\0';
}

const char *cache_root(void)
{
	pthread_once(&once, find_cache);
	return *cache ? cache : NULL;
}

/* ---- records ----------------------------------------------------------------------- */
/* A record, <key>.txt, has the size and hash of a binary, its options, the compiler's output, and a
 * hash of its own text.
 *
 * A power loss or a full disk may damage the binary or its record, and damaged code looks like a
 * kernel that crashes. So files whose hash differs are not used, and the source is compiled again.
 * The hashes find damage only: whoever may write in the folder can change both files. */

#define FIRST "attune binary 2\nhash of what follows "
#define HEAD "status %d\nbytes %zu\nhash %32s\nregisters %d\nspill_bytes %d\nsmem_static %d\n"
#define LOG_MARK "\nlog\n"

enum { HASH_TEXT = 33 };

void *read_file(const char *path, size_t *size)
{
	char *bytes = file_bytes(path, size);
	if (bytes && *size)
		return bytes;
	free(bytes);
	return NULL;
}

static int sync_path(const char *path, int flags)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
	/* EINVAL: this filesystem has no fsync of folders. */
	const int done = fd >= 0 && (fsync(fd) == 0 || ((flags & O_DIRECTORY) && errno == EINVAL));
	if (fd >= 0)
		close(fd);
	return done;
}

int keep_file(const char *made, const char *as)
{
	if (sync_path(made, 0) && rename(made, as) == 0)
		return 1;
	complain("%s: cannot be kept: %s", as, strerror(errno));
	unlink(made);
	return 0;
}

int record_write(const struct binary *b, const struct job *j, int status, const char *as)
{
	char temporary[PATH_MAX + 8], hash[HASH_TEXT];
	char *text = NULL, *whole = NULL;
	hash_of_bytes(hash, b->blob.data, b->blob.size);
	int n = asprintf(&text, HEAD "source %s\narch %s\nflags %s" LOG_MARK "%s", status,
			 b->blob.size, hash, b->registers, b->spill_bytes, b->smem_static,
			 j->source, j->arch, j->flags, b->log ? b->log : "");
	if (n < 0)
		return 0;
	hash_of_bytes(hash, text, (size_t)n);
	n = asprintf(&whole, FIRST "%s\n%s", hash, text);
	snprintf(temporary, sizeof temporary, "%s.txt", j->made);
	int ok = n >= 0 && write_file(temporary, whole, (size_t)n);
	if (ok)
		ok = keep_file(temporary, as) && sync_path(cache_root(), O_DIRECTORY);
	else
		unlink(temporary);
	free(text);
	free(n < 0 ? NULL : whole);
	return ok;
}

/* The text that the record's hash is of; NULL: the hash differs, or an older attune wrote the
 * record. */
static const char *sound_text(const char *text)
{
	char found[HASH_TEXT], stored[HASH_TEXT];
	int at = 0;
	if (sscanf(text, FIRST "%32s\n%n", stored, &at) != 1 || !at)
		return NULL;
	hash_of_bytes(found, text + at, strlen(text + at));
	return strcmp(found, stored) ? NULL : text + at;
}

int record_read(struct binary *b, const char *txt, const char *binary)
{
	int status = -1;
	size_t bytes;
	char stored[HASH_TEXT], found[HASH_TEXT];
	char *text = source_text(txt);
	const char *sound = text ? sound_text(text) : NULL;
	const char *log = sound ? strstr(sound, LOG_MARK) : NULL;
	if (log && sscanf(sound, HEAD, &status, &bytes, stored, &b->registers, &b->spill_bytes,
			  &b->smem_static) == 6)
		b->log = strdup(log + strlen(LOG_MARK));
	free(text);
	if (!b->log || (status != COMPILED && status != REFUSED))
		return -1;
	if (status == REFUSED)
		return status;
	b->blob.data = read_file(binary, &b->blob.size);
	if (!b->blob.data)
		return -1;
	hash_of_bytes(found, b->blob.data, b->blob.size);
	return b->blob.size == bytes && !strcmp(found, stored) ? status : -1;
}

/* ---- limits ------------------------------------------------------------------------ */
/* Once per process:
 *
 *   <key>.<pid>.<n>...   of a process that was killed while it compiled: removed
 *   <key>.*              the least recently used are removed until ATTUNE_CACHE_MB suffice
 *
 * Other machines and containers may share the folder. So temporary files younger than the longest
 * compilation stay, and so do binaries used within a day, because a running sweep loads them by
 * path. */

enum { KEY = 32, DEFAULT_MB = 2048, COMPILATION_S = 600, DAY_S = 86400 };

struct file {
	char name[KEY + 40];
	long long bytes;
	time_t used; /* of the newest file of its key */
};

struct files {
	struct file *v;
	int n, room;
};

static int key_length(const char *name)
{
	return (int)strspn(name, "0123456789abcdef");
}

/* The process that is writing it; 0: it is complete. */
static long writer_of(const char *name)
{
	char *end;
	const long pid = strtol(name + KEY + 1, &end, 10);
	return end > name + KEY + 1 && *end == '.' ? pid : 0;
}

static int is_leftover(long pid, const struct stat *s, time_t now)
{
	const int is_gone = kill((pid_t)pid, 0) && errno == ESRCH;
	return now - s->st_mtime > (is_gone ? COMPILATION_S : DAY_S);
}

static int keep(struct files *f, const char *name, const struct stat *s)
{
	if (!array_grow(&f->v, f->n, &f->room, sizeof *f->v))
		return 0;
	struct file *to = &f->v[f->n++];
	snprintf(to->name, sizeof to->name, "%s", name);
	to->bytes = s->st_size;
	to->used = s->st_mtime;
	return 1;
}

/* Removes leftovers and lists the other files. */
static int read_folder(struct files *f, int folder, DIR *d, time_t now)
{
	int ok = 1;
	for (struct dirent *e; ok && (e = readdir(d));) {
		struct stat s;
		if (key_length(e->d_name) != KEY || e->d_name[KEY] != '.' ||
		    strlen(e->d_name) >= sizeof f->v->name ||
		    fstatat(folder, e->d_name, &s, AT_SYMLINK_NOFOLLOW) || !S_ISREG(s.st_mode))
			continue;
		const long pid = writer_of(e->d_name);
		if (!pid)
			ok = keep(f, e->d_name, &s);
		else if (is_leftover(pid, &s, now))
			unlinkat(folder, e->d_name, 0);
	}
	return ok;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct file *)a)->name, ((const struct file *)b)->name);
}

/* The .txt of a key sorts before its binary: without the .txt the binary is not found. */
static int by_use(const void *a, const void *b)
{
	const struct file *x = a, *y = b;
	const int keys = strncmp(x->name, y->name, KEY);
	if (x->used != y->used)
		return x->used < y->used ? -1 : 1;
	return keys ? keys : strcmp(y->name, x->name);
}

static void share_use(struct files *f)
{
	qsort(f->v, (size_t)f->n, sizeof *f->v, by_name);
	for (int i = 0, end; i < f->n; i = end) {
		time_t used = 0;
		for (end = i; end < f->n && !strncmp(f->v[end].name, f->v[i].name, KEY); end++)
			used = f->v[end].used > used ? f->v[end].used : used;
		for (int k = i; k < end; k++)
			f->v[k].used = used;
	}
	qsort(f->v, (size_t)f->n, sizeof *f->v, by_use);
}

static long long bound(void)
{
	const char *text = getenv("ATTUNE_CACHE_MB");
	char *end;
	const long mb = text && *text ? strtol(text, &end, 10) : DEFAULT_MB;
	if (text && *text && (*end || mb < 1 || mb > 1 << 30)) {
		complain(
		    "ATTUNE_CACHE_MB is \"%.20s\"; it must be a number of megabytes, 1 or more: "
		    "%d are taken",
		    text, DEFAULT_MB);
		return (long long)DEFAULT_MB << 20;
	}
	return (long long)mb << 20;
}

void cache_trim(const char *root)
{
	const time_t now = time(NULL);
	struct files f = { 0 };
	long long bytes = 0;
	const long long most = bound();
	DIR *d = opendir(root);
	if (d && read_folder(&f, dirfd(d), d, now) && f.n) {
		share_use(&f);
		for (int i = 0; i < f.n; i++)
			bytes += f.v[i].bytes;
		/* All files of a key go together. */
		for (int i = 0; i < f.n && now - f.v[i].used > DAY_S; i++) {
			const int goes_on = i && !strncmp(f.v[i].name, f.v[i - 1].name, KEY);
			if (bytes <= most && !goes_on)
				break;
			bytes -= f.v[i].bytes;
			unlinkat(dirfd(d), f.v[i].name, 0);
		}
	}
	if (d)
		closedir(d);
	free(f.v);
}
