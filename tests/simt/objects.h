/* SPDX-License-Identifier: Apache-2.0 */
/* objects.h - kernels as shared objects of the host, beside the tests that want them:
 *
 *   kernels/gpu/attend/qblock.cu -make, host.awk-> B/simt/gpu/attend/qblock.cu
 *                                -c++->            B/simt/objects/KEY.so
 *
 * KEY: a hash of the text with all that it includes, the dialect, the flags and the compiler's
 * command. What is there is not made again. */
#ifndef TESTS_SIMT_OBJECTS_H
#define TESTS_SIMT_OBJECTS_H

enum { SIMT_PATH = 1024, SIMT_FLAGS = 400 };

struct simt_object {
	char source[SIMT_PATH], flags[SIMT_FLAGS], path[SIMT_PATH];
};

/* B/simt, of the program that runs. */
const char *simt_folder(void);
/* source: "gpu/attend/qblock.cu", below that, or a whole path. Fails the program where it is not. */
void simt_object(struct simt_object *, const char *source, const char *flags);
/* Compiles missing objects, as many at once as there are cores. 0: one does not compile; the
 * compiler's messages go to stderr. */
int simt_build(const struct simt_object *, int n);

#endif
