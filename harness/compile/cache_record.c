/* cache_record.c - writes and reads the records of the cache. A record, <key>.txt, has the size and
 * hash of a binary, its options, the compiler's output, and a hash of its own text.
 *
 * A power loss or a full disk may damage the binary or its record, and damaged code looks like a
 * kernel that crashes. So files whose hash differs are not used, and the source is compiled again.
 * The hashes find damage only: whoever may write in the folder can change both files. */
#include "compile.h"
#include "compilers.h"
#include "harness/base/base.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST "attune binary 2\nhash of what follows "
#define HEAD "status %d\nbytes %zu\nhash %32s\nregisters %d\nspill_bytes %d\nsmem_static %d\n"
#define LOG_MARK "\nlog\n"

enum { HASH_TEXT = 33 };

void *read_file(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rbe");
	long n = f && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
	char *bytes = n > 0 ? malloc((size_t)n) : NULL;
	if (bytes && (fseek(f, 0, SEEK_SET) || fread(bytes, 1, (size_t)n, f) != (size_t)n)) {
		free(bytes);
		bytes = NULL;
	}
	if (f)
		fclose(f);
	*size = bytes ? (size_t)n : 0;
	return bytes;
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
