/* plot_roofline.c - the roofline picture: achieved bandwidth of decodes and arithmetic of prefills,
 * as a share of the measured ceilings. */
#include "plot.h"
#include "harness/scenario/scenario.h"
#include "harness/store/store.h"
#include "tuner/data/data.h"
#include "tuner/policy/policy.h"
#include <math.h>
#include <stdio.h>

/* The cell of a policy's plan; NULL unless the plan is one launch that ran. */
static const struct cell *picked_cell(const struct plotted *p, enum policy policy, int scenario)
{
	const struct measured *m = &p->data->v[scenario];
	const int is_decode = !m->has[PHASE_PREFILL];
	const struct cell *c;
	int choice;
	if (!p->pick[policy] || (m->has[PHASE_PREFILL] && m->has[PHASE_DECODE]))
		return NULL;
	choice = is_decode ? p->pick[policy][scenario].decode : p->pick[policy][scenario].prefill;
	if (choice < 0)
		return NULL;
	c = data_cell(p->data, scenario, is_decode ? PHASE_DECODE : PHASE_PREFILL, choice);
	if (!c)
		c = data_cell(p->data, scenario, PHASE_ALL, choice);
	return c && c->outcome == OUTCOME_OK ? c : NULL;
}

static int roof_rows(const struct plotted *p, enum policy policy, int decodes, FILE *rows,
		     struct range *work, struct range *share)
{
	const struct run_info *r = &p->data->run;
	int printed = 0;
	for (int s = 0; s < p->data->n; s++) {
		const struct measured *m = &p->data->v[s];
		const struct cell *c = picked_cell(p, policy, s);
		struct facts f;
		double x, y;
		if (!c || m->has[PHASE_PREFILL] == decodes)
			continue;
		scenario_facts(&f, &m->shape, &m->batch->view);
		x = decodes ? f.kv_bytes : f.flops;
		y = 100 * (decodes ? c->gbps / r->dram_gbps : c->tflops / r->fma_tflops);
		if (!(x > 0) || !(y > 0))
			continue;
		fprintf(rows, "%g %g\n", x, y);
		range_stretch(work, x);
		range_stretch(share, y);
		printed++;
	}
	if (!printed)
		fputs("nan\n", rows);
	fputs("\n\n", rows);
	return printed;
}

int series_roofline(const struct plotted *p, FILE *rows, FILE *settings)
{
	const struct run_info *r = &p->data->run;
	int filled[4], printed = 0;
	if (!(r->dram_gbps > 0) || !(r->fma_tflops > 0))
		return 0;
	for (int i = 0; i < 2; i++) { /* decodes, then prefills */
		struct range work = NO_RANGE, share = { 0, 100 };
		filled[2 * i] = roof_rows(p, POLICY_DEFAULT, !i, rows, &work, &share);
		filled[2 * i + 1] = roof_rows(p, POLICY_TREE, !i, rows, &work, &share);
		printed += filled[2 * i] + filled[2 * i + 1];
		range_print(settings, i ? "flops" : "bytes", work);
		range_print(settings, i ? "flops_share" : "bytes_share", share);
	}
	filled_print(settings, filled, 4);
	fprintf(settings, "dram_gbps = %g\nfma_tflops = %g\n", r->dram_gbps, r->fma_tflops);
	return printed;
}
