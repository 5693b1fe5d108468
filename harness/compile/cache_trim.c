/* cache_trim.c - limits the size of the cache folder, once per process:
 *
 *   <key>.<pid>.<n>...   of a process that was killed while it compiled: removed
 *   <key>.*              the least recently used are removed until ATTUNE_CACHE_MB suffice
 *
 * Other machines and containers may share the folder. So temporary files younger than the longest
 * compilation stay, and so do binaries used within a day, because a running sweep loads them by
 * path. */
#include "compilers.h"
#include "harness/base/base.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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
