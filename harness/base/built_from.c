/* SPDX-License-Identifier: Apache-2.0 */
/* built_from.c - the hash of the sources that this tool was built from. make writes it
 * (sources_hash.c), and compiles this file alone where it changed. */
#include "sources_hash.h"

static const char hash[] =
#include "built_from.inc"
    ;

const char *built_from(void)
{
	return hash;
}
