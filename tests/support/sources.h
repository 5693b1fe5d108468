/* SPDX-License-Identifier: Apache-2.0 */
/* sources.h - a folder of sources, and their identities. Include after cmocka.h. */
#ifndef TESTS_SUPPORT_SOURCES_H
#define TESTS_SUPPORT_SOURCES_H

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char folder[] = "/tmp/t_identity.XXXXXX";

static inline const char *in_folder(const char *name)
{
	static char path[4][PATH_MAX];
	static int n;
	char *p = path[n++ % 4];
	snprintf(p, PATH_MAX, "%s/%s", folder, name);
	return p;
}

static inline void write_text(const char *name, const char *text)
{
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s", in_folder(name));
	for (char *slash = path + sizeof folder; (slash = strchr(slash, '/')); *slash++ = '/') {
		*slash = '\0';
		mkdir(path, 0777);
	}
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static inline void identity(const char *name, char hex[33])
{
	if (!source_identity_of(in_folder(name), folder, hex))
		fail_msg("%s has no identity", name);
}

static inline int remove_folder(void **state)
{
	(void)state;
	char command[80];
	snprintf(command, sizeof command, "rm -rf %s", folder);
	return system(command);
}

#endif
