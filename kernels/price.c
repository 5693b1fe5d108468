/* price.c - what price.h says, asked of choices. */
#include "device.h"
#include <limits.h>

void price_amounts(long long amount[NUM_PRICE_TERMS], const struct price *p,
		   const struct attune_features *f, int segments)
{
	struct price_load l;
	price_load_of(&l, p, f);
	price_count(amount, p, f, &l, segments);
}

/* The load that the choice makes of the part: often that of the last one asked. */
static void take_load(struct price_asked *a, const struct price *p)
{
	if (a->rows == p->rows && a->tile == p->tile && a->heads == p->heads)
		return;
	price_load_of(&a->load, p, &a->part->f);
	a->rows = p->rows;
	a->tile = p->tile;
	a->heads = p->heads;
}

static long long paid(const struct price *p, enum price_term term, long long amount)
{
	return p->fs[term] * min_of(amount, 1 << 27);
}

/* What estimates of one choice have in common, whatever the segments v; and what keeps most values
 * from being asked at all. Of keys a path has at least
 *
 *   busy + v starts <= blocks (padded_mean + v start) / slots    as if no slot were ever idle
 *   longest + start                                              that block
 *
 * The first grows with v, as all other amounts do: what is no less than a bound by it is not of
 * more segments either. */
struct quote {
	const struct price *price;
	const struct price_load *load;
	const struct attune_features *f;
	long long uncut; /* fs of one segment beside the path and its context */
	long long rows, slots, busy, starts;
};

static struct quote quote_of(const struct price *p, const struct price_load *l,
			     const struct attune_features *f)
{
	const long long slots = f->units * p->slots;
	long long amount[NUM_PRICE_TERMS];
	price_count_with(amount, f, l, 1, 0, 0);
	return (struct quote){ .price = p,
			       .load = l,
			       .f = f,
			       .uncut = price_sum(p, amount),
			       .rows = f->query_tokens * f->num_query_heads,
			       .slots = slots,
			       .busy = l->blocks * l->padded_mean / slots,
			       .starts = l->blocks * p->start / slots };
}

static long long cuts(const struct quote *q, int v)
{
	long long amount[NUM_PRICE_TERMS];
	price_count_cuts(amount, q->rows, v);
	return paid(q->price, PRICE_split, amount[PRICE_split]) +
	       paid(q->price, PRICE_segments, amount[PRICE_segments]) +
	       paid(q->price, PRICE_merge, amount[PRICE_merge]);
}

/* Keys that the path is not shorter than; `even`: where no slot is idle. Of decodes the tail, too,
 * counts in full, if there is more than a wave. */
static long long least_path(const struct quote *q, int v, long long even)
{
	const long long longest = parts_of(q->load->tiles, v) * q->price->tile;
	if (q->load->blocks * v <= q->slots || q->f->max_query > DECODE_MAX_QUERY)
		return longest + q->price->start;
	return even + max_of(longest - parts_of(q->load->padded_mean, v), 0);
}

/* What v segments take, if that is below a bound; else the bound. *over: no more of them are. */
static long long cost_below(const struct quote *q, int v, long long bound, int *over)
{
	const struct price *p = q->price;
	const long long beside = q->uncut + cuts(q, v), even = q->busy + v * q->starts;
	*over = beside + paid(p, PRICE_path, even) >= bound;
	if (*over || beside + paid(p, PRICE_path, least_path(q, v, even)) >= bound)
		return bound;
	const long long path = min_of(price_path(p, q->f, q->load, v), 1 << 27);
	return min_of(bound, beside + paid(p, PRICE_path, path) +
				 paid(p, PRICE_context, price_context(q->f, path)));
}

long long config_cheaper(struct config *out, const struct config *c, const struct kernel *k,
			 const struct price *price, struct price_asked *asked, long long than)
{
	const struct space *s = k->space;
	const struct axis *a = s->formula_axis < 0 ? NULL : &s->axis[s->formula_axis];
	struct config at = *c;
	long long least = than;
	int over = 0;
	take_load(asked, price);
	const struct quote q = quote_of(price, &asked->load, &asked->part->f);
	for (int i = 0; i < (a ? a->num_values : 1) && !over; i++) {
		const int v = a ? a->values[i] : 1;
		const long long cost = cost_below(&q, v, least, &over);
		if (a)
			at.v[s->formula_axis] = v;
		if (cost < least &&
		    !s->why_illegal(&at, asked->shape, asked->part, asked->device)) {
			least = cost;
			*out = at;
		}
	}
	return least < than ? least : -1;
}

long long config_cheapest(struct config *out, const struct config *c, const struct kernel *k,
			  const struct price *price, const attune_shape *shape,
			  const struct part *p, const struct device_info *d)
{
	struct price_asked asked = { .shape = shape, .part = p, .device = d };
	return config_cheaper(out, c, k, price, &asked, LLONG_MAX);
}
