/* SPDX-License-Identifier: Apache-2.0 */
/* kv_order.c - where K and V of a layout lie. Each layout is an order of dimensions, the slowest
 * first, each a letter as vLLM names them; the elements of a head come last:
 *
 *   B  pages      L  layers      H  KV heads      N  slots of a page      2  K, then V
 *
 * Tensors with all layers have LAYERS of them, of which a workload's is the second: the others'
 * keys stand before, between and behind its own. */
#include "check.h"
#include "workload.h"
#include <string.h>

enum { LAYERS = 4 };

static const char *const orders[] = {
	[LAYOUT_NHD] = "BNH",     [LAYOUT_HND] = "BHN",
	[LAYOUT_CLASSIC] = "BHN", /* and heads as attune.h says */
	[LAYOUT_PACKED] = "BNH2", /* layers stand apart: LBNHC, where C is both of a head */
	[LAYOUT_LBHNC] = "BHN2",  [LAYOUT_LHBNC] = "HBN2",
	[LAYOUT_BLNHC] = "BLNH2", [LAYOUT_BLHNC] = "BLHN2",
	[LAYOUT_BHLNC] = "BHLN2", [LAYOUT_PAIRED] = "BL2NH", /* Transformers since 5.24 */
};

struct kv_order kv_order(const attune_shape *s, enum layout layout, int64_t pages)
{
	static const char letters[] = "BLHN2";
	const int64_t sizes[] = { pages, LAYERS, s->num_kv_heads, s->page_size, 2 };
	const char *order = orders[layout];
	int64_t strides[sizeof letters] = { 0 }, end = s->head_size;
	for (size_t i = strlen(order); i--;) {
		const size_t at = (size_t)(strchr(letters, order[i]) - letters);
		strides[at] = end;
		end *= sizes[at];
	}
	return (struct kv_order){
		.page = strides[0],
		.slot = layout == LAYOUT_CLASSIC ? 0 : strides[3], /* unused there */
		.head = strides[2],
		.k_at = strides[1],
		.v_at = strides[1] + strides[4],
		.is_shared = strides[4] > 0,
		.unit = strides[0],
		.unit_heads = *order == 'B' ? s->num_kv_heads : 1,
		.elements = end,
	};
}
