/* SPDX-License-Identifier: Apache-2.0 */
/* context.c - turns errors of the CUDA driver into the library's. */
#include "context.h"
#include "kernels/spec/status.h"
#include <stdio.h>

/* What a driver says of binaries that a newer toolkit made. */
static int is_of_newer_toolkit(int error)
{
	return error == ERROR_INVALID_IMAGE || error == ERROR_NO_IMAGE_FOR_GPU ||
	       error == ERROR_NEWER_PTX;
}

enum attune_status cuda_check(const struct cuda *c, int error, const char *what)
{
	const char *text = NULL;
	char driver[120] = "";
	int version = 0;
	if (!error)
		return ATTUNE_OK;
	c->cu.ErrorString(error, &text);
	if (is_of_newer_toolkit(error) && !c->cu.DriverVersion(&version))
		snprintf(driver, sizeof driver,
			 "; this driver is of CUDA %d.%d, and binaries of a newer CUDA compiler "
			 "need a newer one",
			 version / 1000, version % 1000 / 10);
	return fail(error == ERROR_OUT_OF_MEMORY      ? ATTUNE_NO_MEMORY
		    : error == ERROR_OUT_OF_RESOURCES ? ATTUNE_UNSUPPORTED
						      : ATTUNE_DEVICE_ERROR,
		    "cuda: %s: %s (error %d)%s", what, text ? text : "unknown", error, driver);
}

enum attune_status cuda_leave(const struct cuda *c, int error, const char *what)
{
	void *popped;
	if (error == -1)
		return fail(ATTUNE_DEVICE_ERROR, "cuda: %s: the context is gone", what);
	c->cu.CtxPop(&popped);
	return cuda_check(c, error, what);
}
