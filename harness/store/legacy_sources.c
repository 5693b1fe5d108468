/* legacy_sources.c - maps source hashes of databases up to version 5 to source identities. */
#include "handle.h"
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

static const struct legacy_source sources[] = {
#define LEGACY(old, ...) { old, { __VA_ARGS__ } },
#include "legacy_sources.def"
#undef LEGACY
};

static int is_of_pair(const char *hash, const char *first, const char *second)
{
	char both[2 * 32 + 1], hex[33];
	snprintf(both, sizeof both, "%s%s", first, second);
	const XXH128_hash_t h = XXH3_128bits(both, strlen(both));
	snprintf(hex, sizeof hex, "%016llx%016llx", (unsigned long long)h.high64,
		 (unsigned long long)h.low64);
	return !strcmp(hash, hex);
}

int legacy_sources(const char *hash, const struct legacy_source *part[2])
{
	const struct legacy_source *const end = sources + COUNT(sources);
	for (const struct legacy_source *s = sources; s < end; s++)
		if (!strcmp(hash, s->hash)) {
			part[0] = s;
			return 1;
		}
	for (const struct legacy_source *a = sources; a < end; a++)
		for (const struct legacy_source *b = sources; b < end; b++)
			if (is_of_pair(hash, a->hash, b->hash)) {
				part[0] = a;
				part[1] = b;
				return 2;
			}
	return 0;
}
