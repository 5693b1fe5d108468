/* context.c - turns errors of the CUDA driver into the library's. */
#include "context.h"
#include "kernels/spec/status.h"

enum attune_status cuda_check(const struct cuda *c, int error, const char *what)
{
	const char *text = NULL;
	if (!error)
		return ATTUNE_OK;
	c->cu.ErrorString(error, &text);
	return fail(error == ERROR_OUT_OF_MEMORY      ? ATTUNE_NO_MEMORY
		    : error == ERROR_OUT_OF_RESOURCES ? ATTUNE_UNSUPPORTED
						      : ATTUNE_DEVICE_ERROR,
		    "cuda: %s: %s (error %d)", what, text ? text : "unknown", error);
}

enum attune_status cuda_leave(const struct cuda *c, int error, const char *what)
{
	void *popped;
	if (error == -1)
		return fail(ATTUNE_DEVICE_ERROR, "cuda: %s: the context is gone", what);
	c->cu.CtxPop(&popped);
	return cuda_check(c, error, what);
}
