/* text.c - what was committed, as text (attune_settled_text, attune_settled_read). */
#include "store.h"
#include "kernels/spec/status.h"

enum attune_status attune_settled_text(const attune_context *ctx, char *text, size_t room,
				       size_t *need)
{
	(void)text, (void)room;
	if (!ctx || !need)
		return fail(ATTUNE_INVALID, "attune_settled_text: an argument is NULL");
	return fail(ATTUNE_UNSUPPORTED, "attune_settled_text: not in this version");
}

enum attune_status attune_settled_read(attune_context *ctx, const char *text, size_t size,
				       int *taken, int *dropped)
{
	(void)size, (void)taken, (void)dropped;
	if (!ctx || !text)
		return fail(ATTUNE_INVALID, "attune_settled_read: an argument is NULL");
	return fail(ATTUNE_UNSUPPORTED, "attune_settled_read: not in this version");
}
