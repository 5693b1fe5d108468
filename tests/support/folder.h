/* SPDX-License-Identifier: Apache-2.0 */
/* folder.h - a temporary folder of the test program, removed at the end. */
#ifndef TESTS_SUPPORT_FOLDER_H
#define TESTS_SUPPORT_FOLDER_H

#include <stdio.h>
#include <stdlib.h>

static char folder[] = "/tmp/attune_test.XXXXXX";

__attribute__((unused)) static const char *in_folder(const char *name)
{
	static char path[16][128]; /* valid for the next fifteen calls */
	static int turn;
	char *p = path[turn++ % 16];
	snprintf(p, sizeof path[0], "%s/%s", folder, name);
	return p;
}

__attribute__((unused)) static int remove_folder(void **state)
{
	char command[80];
	(void)state;
	snprintf(command, sizeof command, "rm -rf %s", folder);
	return system(command);
}

#endif
