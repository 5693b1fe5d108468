/* results.c - times a graph of launches, and keeps the results. */
#include "suite.h"
#include "harness/base/base.h"
#include "harness/store/store.h"
#include "kernels/device/device.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

enum { PLAYS = 7, WARM = 2 };

double roofline_us(struct device *dev, int launches,
		   enum attune_status (*record)(void *arg, int i, void *stream), void *arg)
{
	struct graph *graph = NULL;
	double ns[PLAYS];
	enum attune_status status = dev->ops->graph_begin(dev);
	if (status)
		return NAN;
	for (int i = 0; i < launches && !status; i++)
		status = record(arg, i, dev->ops->stream(dev));
	const enum attune_status ended = dev->ops->graph_end(dev, &graph);
	status = status ? status : ended;
	for (int i = -WARM; i < PLAYS && !status; i++)
		status = dev->ops->graph_play(dev, graph, &ns[i < 0 ? 0 : i]);
	if (!ended)
		dev->ops->graph_free(dev, graph);
	return status ? NAN : median(ns, PLAYS) / launches / 1e3;
}

void roofline_add(struct roofline *r, const char *name, double value, const char *unit,
		  const char *format, ...)
{
	va_list ap;
	if (!(value > 0) || isinf(value) || r->n == MOST_CEILINGS)
		return;
	char *detail = r->detail[r->n];
	va_start(ap, format);
	vsnprintf(detail, ROOFLINE_TEXT, format, ap);
	va_end(ap);
	r->v[r->n++] = (struct ceiling){ name, detail, unit, value };
}
