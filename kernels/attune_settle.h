/* SPDX-License-Identifier: Apache-2.0 */
/* attune_settle.h - times the few plans that are close for a batch, and remembers the fastest.
 *
 * The rules of a header name one choice for a batch. A member is a choice that may run where they
 * name that one: its row, then the portable rules' row, then the defaults. To settle a batch is to
 * time its members on the device, on the layers' own caches. What is fastest is remembered for the
 * batch's cell: the shape, the phase, the choice that the rules named, and third-octave steps of
 * the lengths (twice the keys are three steps more); of a batch with prefills and decodes those of
 * both parts, and what the rules say about running both. Later batches of the cell get it too.
 *
 *   in warm-up, before graphs are captured:
 *     attune_settle(op, &batch, layers, &how, ws, bytes, stream, &ms);   for each batch
 *     attune_settled_commit(ctx);                                        plans change here
 *   to keep it, or to send it to other ranks:
 *     attune_settled_text(ctx, text, room, &need);
 *     attune_settled_read(ctx, text, size, &taken, &dropped);  attune_settled_commit(ctx);
 *
 * Nothing is timed but by attune_settle. A program that times plans itself takes them from
 * attune_plan_alternatives, and gives its times to attune_report.
 *
 * Plans change at attune_settled_commit alone, and only those of attune_plan_batch:
 * attune_plan_bounds never asks what was settled. Between two commits a plan is a function of the
 * rules, the lengths and attune_settled_digest. A graph that was captured before a commit still
 * serves what it served; a plan made after the commit may run other launches, so that
 * attune_plan_serves no longer says ATTUNE_SERVES_ALIKE of the two.
 *
 * Whatever is remembered, results are right: that a choice can run a batch is asked again for each
 * plan, and where it cannot the rules decide. The bits of a result may differ, as they may between
 * any two choices. attune_max_workspace covers all plans that settling may bring.
 *
 * Ranks. Where all ranks must run alike one of them settles and sends its text, the others read it,
 * all commit and compare their digests before they capture. The memory belongs to a context; ops of
 * equal shape share it. It holds 3072 cells and 1 MiB of text; where it is full, what it has stays.
 * A batch of more than 8192 sequences, or 4096 runs of equal ones, is ATTUNE_UNSUPPORTED.
 *
 * All device memory is the caller's. The host's, some 700 bytes a cell and what its batch takes,
 * attune_close frees. These calls may allocate. Several threads may use them at a time, also while
 * others plan and run; a plan that is made while a commit runs may have some of its cells as before
 * and some as after. With ATTUNE_INVARIANT=1 all but attune_settled_text and
 * attune_settled_digest are ATTUNE_UNSUPPORTED. */
#ifndef ATTUNE_SETTLE_H
#define ATTUNE_SETTLE_H

#include "attune.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How attune_settle times. 0 in a member but size, num_layers and num_pages is a fair choice. */
typedef struct attune_settle_how {
	uint32_t size;  /* sizeof(attune_settle_how) */
	int num_layers; /* entries of `layers`: layers of this op, each with a cache of its own */
	int64_t num_pages; /* pages 0 .. num_pages - 1 of each cache may be read; below 2^31 */
	int eager;         /* on a GPU: 0: timed as replays of a graph; 1: as single calls */
	int unused;        /* 0 */
	double most_ms;    /* gives up after it; 0: 20 for a batch of decodes, else 200 */
} attune_settle_how;

/* Bytes of workspace that attune_settle takes for the batch. */
enum attune_status attune_settle_sizes(const attune_op *op, const attune_batch *batch,
				       const attune_settle_how *how, size_t *bytes);

/* Times the members of the batch and keeps the fastest until attune_settled_commit. Waits for
 * `stream`, times on a stream of its own, and returns when the device is done. One call runs at a
 * time in a process; others wait. No thread may be capturing a stream meanwhile.
 *
 * layers[num_layers]: the tensors of each layer, for a batch of these lengths. Block table, lengths
 * and starts are not read from them: the call makes its own in the workspace, which spread the
 * batch over pages 0 .. num_pages - 1 and read pages again where these are too few. `out` and `lse`
 * are overwritten, K and V only read. They must not be all zeros, since a device that multiplies
 * zeros takes less power: ATTUNE_INVALID. Layers, and other pages of each, are taken in turn, so
 * that K and V come from memory as in a model. Where they are too few for that the workspace is
 * written in between: its size is above twice the device's last cache if one call reads less.
 *
 * The members run in turns, the first of them twice in each round, for three rounds; one whose call
 * before the rounds takes 1.3 times the first's time and 4 us more is left out. Then the fastest
 * races with the next lower and the next higher number of segments that its keys may be cut into (of
 * decodes, and of prefills whose keys are cut). What is fastest then, and one step further if a step
 * was, races with the first for ten rounds. The first stays unless another one is faster in the last
 * seven by more than 1 % and by more than 1.5 times what the first's own two times differ by.
 *
 * A batch with prefills and decodes: both parts first, each as a batch of its own, then the ways to
 * run them together, by the fastest parts and by the rules', then one change of a part, then the
 * fastest and the first.
 *
 * It gives up where most_ms would pass before the first three rounds are over, and then keeps
 * nothing; of a later race that does not fit it keeps what it knew. One race takes 15 to 40 calls,
 * those of a mixed batch up to some 400.
 *
 * *ms: what it took, also NULL. An error leaves what was settled unchanged. ATTUNE_UNSUPPORTED: the
 * stream is captured. ATTUNE_TOO_SMALL: the workspace is below attune_settle_sizes. */
enum attune_status attune_settle(const attune_op *op, const attune_batch *batch,
				 const attune_tensors *layers, const attune_settle_how *how,
				 void *workspace, size_t bytes, void *stream, double *ms);

/* Of attune_plan_alternatives at most. */
enum { ATTUNE_MOST_ALTERNATIVES = 24 };

/* The plans of a batch that are worth a race, the present one first: the members, and the present
 * one with the next lower and the next higher number of segments; for a batch with prefills and
 * decodes some twelve ways to run both. `plans` has room for `room` plans, whose size is that of the
 * first: set its `size`. *n: how many there are. More than `room`: ATTUNE_TOO_SMALL, and no plan is
 * written. */
enum attune_status attune_plan_alternatives(const attune_op *op, const attune_batch *batch,
					    attune_plan *plans, int room, int *n);

/* One round of times in microseconds, us[i] of plans[i]: of all plans that attune_plan_alternatives
 * gave for the batch, in its order. Take the times of one round close together and on the same
 * batch: times of different steps differ by their lengths, too. From three rounds on the plan wins
 * whose time over that of the rules' plan has the least median, if that is below 0.99; more rounds
 * decide better. The last 10 rounds of a cell count, of 3072 cells at most, 2 KB each. Times are
 * 0.001 to 999999999. Plans of another op or batch, or other than the alternatives now are, are
 * ATTUNE_INVALID. */
enum attune_status attune_report(const attune_op *op, const attune_batch *batch,
				 const attune_plan *plans, const double *us, int n);

/* Makes what was settled, reported or read since the last commit count for plans. Order it with
 * the capture of graphs, as closing. Of a cell a choice other than the first counts where it was
 * faster by enough to be so for other batches of the cell too: by 2 %; for prefills by 4 %, or
 * where two different batches of the cell agree, each settled or reported in three rounds. */
enum attune_status attune_settled_commit(attune_context *ctx);

/* What was committed, as text: ASCII, one item a line, cells in an order of their own. The same
 * memory gives the same bytes. *need: its length; there is no 0 at the end. NULL for `text`: only
 * *need is set. ATTUNE_TOO_SMALL: room is below *need. FORMATS.md has the lines. */
enum attune_status attune_settled_text(const attune_context *ctx, char *text, size_t room,
				       size_t *need);

/* Takes a text's cells, to count from attune_settled_commit on; a cell that was settled here before
 * is replaced. *taken: how many; *dropped: cells of choices that this version's rules do not have,
 * or whose kernel has changed. Both may be NULL. A text that is malformed, of another version of
 * the format, or of another device is ATTUNE_INVALID, nothing is taken, and the line of
 * attune_last_error begins "line N:". Other drivers and clocks are no reason to refuse it. */
enum attune_status attune_settled_read(attune_context *ctx, const char *text, size_t size,
				       int *taken, int *dropped);

/* A number for what was committed, whatever the order; equal for equal memory, in any process. 0:
 * nothing that changes a plan. */
uint64_t attune_settled_digest(const attune_context *ctx);

#ifdef __cplusplus
}
#endif
#endif
