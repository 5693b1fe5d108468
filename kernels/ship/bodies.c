/* bodies.c - determines the bodies of the kernels of recorded steps. The library and list_shipped
 * both use it, so that the library asks for what was built. */
#include "kernels/device/device.h"
#include "kernels/select/selector.h"
#include "kernels/recorded.h"
#include <stdio.h>
#include <string.h>

static const enum decision decided[NUM_RECORDED] = { DECIDE_PREFILL, DECIDE_DECODE };

/* These kernels have the same STATIC axes, and segmented can do what qblock can. */
static const struct kernel *body_kernel(void)
{
	return kernel_find(BACKEND_GPU, "segmented");
}

static int has_body(const struct kernel *k)
{
	static const char *const names[] = { "qblock", "segmented", "qblock_static",
					     "segmented_static" };
	for (size_t i = 0; i < COUNT(names); i++)
		if (k == kernel_find(BACKEND_GPU, names[i]))
			return 1;
	return 0;
}

/* The choice's STATIC values, as those of segmented. */
static void body_config(struct config *out, const struct kernel *k, const struct config *c)
{
	const struct space *s = body_kernel()->space;
	config_default(out, s);
	for (int i = 0; i < s->num_axes; i++)
		if (s->axis[i].is_static)
			out->v[i] = config_value(c, k->space, s->axis[i].name, out->v[i]);
}

int bodies_find(const struct bodies *b, const struct kernel *k, const struct config *c)
{
	struct config body;
	if (!has_body(k))
		return -1;
	body_config(&body, k, c);
	for (int i = 0; i < b->n; i++)
		if (!memcmp(&b->config[i], &body, sizeof body))
			return i;
	return -1;
}

static void add_body(struct bodies *b, const struct kernel *k, const struct config *c)
{
	if (b->n < MAX_BODIES && bodies_find(b, k, c) < 0)
		body_config(&b->config[b->n++], k, c);
}

static void add_choice(struct bodies *b, const struct selector *h, int which, int id,
		       const attune_shape *shape)
{
	const struct selector_row *row = &h->choices[id];
	const struct kernel *k = kernel_find(BACKEND_GPU, row->kernel);
	const char *where;
	struct config c;
	if (!k || !has_body(k) || !config_parse(&c, k->space, row->text, &where))
		return;
	const struct device_info d = device_of_arch(h->arch);
	if (selector_reaches(h, decided[which], shape, id) &&
	    !k->space->why_illegal(&c, shape, NULL, &d))
		add_body(b, k, &c);
}

/* Warps of a block, few enough that a team of each body has the registers that it needs: prefills
 * have many rows a warp, head size 256 has large outputs. */
static int warps_of(int which, int head_size)
{
	if (which == RECORDED_PREFILL || head_size > 128)
		return 8;
	return head_size > 64 ? 12 : 16;
}

/* A kernel of many bodies takes half a minute to compile, and graphs that the host picks are
 * faster: other types have only the default's body. */
static int has_choices(const attune_shape *shape)
{
	return shape->dtype == ATTUNE_BF16;
}

void bodies_of(struct bodies *b, const struct selector *h, int which, const attune_shape *shape)
{
	struct config c;
	memset(b, 0, sizeof *b);
	config_default(&c, body_kernel()->space);
	add_body(b, body_kernel(), &c);
	const int has = h && has_choices(shape) && selector_has_shape(h, shape);
	for (int id = 0; has && id < h->num_choices; id++)
		add_choice(b, h, which, id, shape);
	b->warps = b->n > 1 ? warps_of(which, shape->head_size) : 8;
}

static int body_value(const struct config *c, const char *axis)
{
	return config_value(c, body_kernel()->space, axis, 0);
}

int bodies_flags(char *text, size_t size, const struct bodies *b, const attune_shape *shape)
{
	const struct kernel *k = kernel_find(BACKEND_GPU, "recorded");
	struct config c;
	config_default(&c, k->space);
	c.v[0] = b->warps;
	size_t n = (size_t)binary_flags(text, size, k, &c, shape);
	for (int i = 0; b->n > 1 && i < b->n && n < size; i++) {
		const struct config *body = &b->config[i];
		const int code =
		    body_value(body, "BLOCK_M") * 1000000 + body_value(body, "TILE_SIZE") * 1000 +
		    body_value(body, "NUM_WARPS") * 10 + body_value(body, "NUM_STAGES");
		const int hints = body_value(body, "KV_HINT") * 100 +
				  body_value(body, "Q_HINT") * 10 + body_value(body, "GRID_ORDER");
		n += (size_t)snprintf(text + n, size - n, " -DB%d=%d", i, code);
		if (hints && n < size)
			n += (size_t)snprintf(text + n, size - n, " -DH%d=%d", i, hints);
	}
	return (int)n;
}
