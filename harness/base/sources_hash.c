/* SPDX-License-Identifier: Apache-2.0 */
/* sources_hash.c - the hash of the sources that a binary is built from: the Makefile, and the files of
 * kernels/, harness/ and tuner/ that a compiler or Python reads. make also builds this file as a program
 * (SOURCES_HASH_MAIN), which prints the hash, and compiles the hash into the tool.
 *
 * It is the SHA-1 of a list of the files, sorted by path. A line is the SHA-1 that git gives the
 * file's content, a blank, and the path. So git's list of a commit's files gives the commit's hash. */
#include "sources_hash.h"
#include <dirent.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *const built_parts[NUM_BUILT_PARTS] = { "Makefile", "harness", "kernels", "tuner" };
const char *const compiled_parts[NUM_COMPILED_PARTS] = { "harness/peers", "kernels" };

/* ---- SHA-1 ----------------------------------------------------------------------------------- */
struct sha1 {
	uint32_t h[5];
	uint64_t bytes;
	unsigned char block[64];
};

static uint32_t rotate(uint32_t x, int n)
{
	return x << n | x >> (32 - n);
}

static void digest_block(struct sha1 *s)
{
	uint32_t w[80], a = s->h[0], b = s->h[1], c = s->h[2], d = s->h[3], e = s->h[4];
	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)s->block[4 * i] << 24 | (uint32_t)s->block[4 * i + 1] << 16 |
		       (uint32_t)s->block[4 * i + 2] << 8 | (uint32_t)s->block[4 * i + 3];
	for (int i = 16; i < 80; i++)
		w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	for (int i = 0; i < 80; i++) {
		const uint32_t f = i < 20   ? (b & c) | (~b & d)
				   : i < 40 ? b ^ c ^ d
				   : i < 60 ? (b & c) | (b & d) | (c & d)
					    : b ^ c ^ d;
		const uint32_t k = i < 20   ? 0x5a827999
				   : i < 40 ? 0x6ed9eba1
				   : i < 60 ? 0x8f1bbcdc
					    : 0xca62c1d6;
		const uint32_t next = rotate(a, 5) + f + e + k + w[i];
		e = d, d = c, c = rotate(b, 30), b = a, a = next;
	}
	s->h[0] += a, s->h[1] += b, s->h[2] += c, s->h[3] += d, s->h[4] += e;
}

static void sha1_begin(struct sha1 *s)
{
	*s = (struct sha1){ { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 }, 0, "" };
}

static void sha1_add(struct sha1 *s, const void *data, size_t n)
{
	const unsigned char *from = data;
	while (n) {
		const size_t at = s->bytes % 64, part = n < 64 - at ? n : 64 - at;
		memcpy(s->block + at, from, part);
		s->bytes += part, from += part, n -= part;
		if (s->bytes % 64 == 0)
			digest_block(s);
	}
}

static void sha1_end(struct sha1 *s, char hex[SOURCES_HASH])
{
	unsigned char length[8];
	const uint64_t bits = 8 * s->bytes;
	for (int i = 0; i < 8; i++)
		length[i] = (unsigned char)(bits >> (56 - 8 * i));
	sha1_add(s, "\x80", 1);
	while (s->bytes % 64 != 56)
		sha1_add(s, "", 1);
	sha1_add(s, length, sizeof length);
	for (int i = 0; i < 5; i++)
		snprintf(hex + 8 * i, 9, "%08x", (unsigned)s->h[i]);
}

/* ---- a list of files -------------------------------------------------------------------------- */
struct entry {
	char blob[SOURCES_HASH], path[512];
};
struct list {
	struct entry *v;
	size_t n, room;
	int failed;
};

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->path, ((const struct entry *)b)->path);
}

/* Whether a compiler or Python reads the file. Pages and an editor's backups do not count. */
static int is_source(const char *path)
{
	static const char *const ends[] = {
		".c", ".h", ".cu", ".def", ".inc", ".sql", ".mk", ".py"
	};
	const char *end = strrchr(path, '.');
	for (size_t i = 0; end && i < sizeof ends / sizeof *ends; i++)
		if (!strcmp(end, ends[i]))
			return 1;
	return !strcmp(path, "Makefile");
}

static void put(struct list *l, const char *blob, const char *path)
{
	if (l->n == l->room) {
		const size_t room = l->room ? 2 * l->room : 1024;
		struct entry *more = realloc(l->v, room * sizeof *more);
		if (!more) {
			l->failed = 1;
			return;
		}
		l->v = more, l->room = room;
	}
	struct entry *e = &l->v[l->n];
	l->failed |= (size_t)snprintf(e->path, sizeof e->path, "%s", path) >= sizeof e->path;
	snprintf(e->blob, sizeof e->blob, "%s", blob);
	l->n += !l->failed;
}

/* The hash of the list, which it frees. 0: the list has no file, or is not whole. */
static int finish(struct list *l, char hex[SOURCES_HASH])
{
	struct sha1 s;
	const int ok = !l->failed && l->n;
	if (ok)
		qsort(l->v, l->n, sizeof *l->v, by_path);
	sha1_begin(&s);
	for (size_t i = 0; ok && i < l->n; i++) {
		sha1_add(&s, l->v[i].blob, strlen(l->v[i].blob));
		sha1_add(&s, " ", 1);
		sha1_add(&s, l->v[i].path, strlen(l->v[i].path));
		sha1_add(&s, "\n", 1);
	}
	hex[0] = '\0';
	if (ok)
		sha1_end(&s, hex);
	free(l->v);
	return ok;
}

/* The SHA-1 that `git hash-object` prints. 0: the file cannot be read. */
static int blob_of(const char *file, char hex[SOURCES_HASH])
{
	struct sha1 s;
	struct stat st;
	char buffer[1 << 14];
	FILE *f = fopen(file, "rbe");
	const int ok = f && !fstat(fileno(f), &st);
	sha1_begin(&s);
	if (ok)
		sha1_add(&s, buffer,
			 1 + (size_t)snprintf(buffer, sizeof buffer, "blob %lld",
					      (long long)st.st_size));
	for (size_t n; ok && (n = fread(buffer, 1, sizeof buffer, f)) > 0;)
		sha1_add(&s, buffer, n);
	sha1_end(&s, hex);
	const int read_all = ok && !ferror(f);
	if (f)
		fclose(f);
	return read_all;
}

static void walk(struct list *l, const char *top, const char *path)
{
	char file[4096], below[1024], blob[SOURCES_HASH];
	struct stat st;
	if (snprintf(file, sizeof file, "%s/%s", top, path) >= (int)sizeof file) {
		l->failed = 1;
		return;
	}
	if (lstat(file, &st))
		return;
	if (S_ISREG(st.st_mode) && is_source(path)) {
		l->failed |= !blob_of(file, blob);
		put(l, blob, path);
	}
	DIR *dir = S_ISDIR(st.st_mode) ? opendir(file) : NULL;
	l->failed |= S_ISDIR(st.st_mode) && !dir;
	for (struct dirent *e; dir && (e = readdir(dir));) {
		if (e->d_name[0] == '.')
			continue;
		if (snprintf(below, sizeof below, "%s/%s", path, e->d_name) < (int)sizeof below)
			walk(l, top, below);
		else
			l->failed = 1;
	}
	if (dir)
		closedir(dir);
}

int sources_hash(const char *top, const char *const part[], int parts, char hex[SOURCES_HASH])
{
	struct list l = { 0 };
	for (int i = 0; i < parts; i++)
		walk(&l, top, part[i]);
	return finish(&l, hex);
}

/* A line of a file: "M 100644 ", its 40 digits, a blank, its path. No sscanf: it would look for the end
 * of the whole listing at each line. */
int listing_hash(const char *listing, const char *const part[], int parts, char hex[SOURCES_HASH])
{
	enum { BLOB = 9, PATH = 50 };
	struct list l = { 0 };
	size_t n;
	for (const char *at = listing; *at; at += n + (at[n] == '\n')) {
		char blob[SOURCES_HASH], path[512];
		n = strcspn(at, "\n");
		if (n <= PATH || n - PATH >= sizeof path || strncmp(at, "M 100", 5))
			continue;
		snprintf(blob, sizeof blob, "%.40s", at + BLOB);
		snprintf(path, sizeof path, "%.*s", (int)(n - PATH), at + PATH);
		for (int i = 0; i < parts; i++) {
			const size_t length = strlen(part[i]);
			if (!strncmp(path, part[i], length) &&
			    (!path[length] || path[length] == '/') && is_source(path))
				put(&l, blob, path);
		}
	}
	return finish(&l, hex);
}

#ifdef SOURCES_HASH_MAIN
int main(void)
{
	char hex[SOURCES_HASH];
	const int ok = sources_hash(".", built_parts, NUM_BUILT_PARTS, hex);
	return !ok || printf("\"%s\"\n", hex) < 0;
}
#endif
