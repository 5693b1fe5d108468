/* SPDX-License-Identifier: Apache-2.0 */
/* status.c - keeps the last error of each thread, and names the status codes. */
#include "status.h"
#include <stdarg.h>
#include <stdio.h>

static _Thread_local char last_error[1024];

/* Replaces control characters, which names that callers gave and texts of files may have: those of
 * ASCII, line ends among them, and U+0080 to U+009F, which some terminals obey. */
static void keep_to_one_line(char *text)
{
	for (unsigned char *c = (unsigned char *)text; *c; c++)
		if (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0)
			c[0] = c[1] = '?';
		else if (*c < ' ' || *c == 0x7f)
			*c = '?';
}

enum attune_status fail(enum attune_status status, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	vsnprintf(last_error, sizeof last_error, format, ap);
	va_end(ap);
	keep_to_one_line(last_error);
	return status;
}

const char *attune_last_error(void)
{
	return last_error;
}

const char *attune_status_text(enum attune_status status)
{
	switch (status) {
	case ATTUNE_OK: return "ok";
	case ATTUNE_INVALID: return "invalid argument";
	case ATTUNE_UNSUPPORTED: return "not supported by this backend";
	case ATTUNE_NO_DEVICE: return "no such device";
	case ATTUNE_NO_MEMORY: return "out of memory";
	case ATTUNE_TOO_SMALL: return "buffer too small";
	case ATTUNE_DEVICE_ERROR: return "device error";
	}
	return "unknown status";
}

const char *attune_version(void)
{
#define TEXT(number) #number
#define DOTTED(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)
	return DOTTED(ATTUNE_VERSION_MAJOR, ATTUNE_VERSION_MINOR, ATTUNE_VERSION_PATCH);
}
