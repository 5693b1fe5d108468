/* recorded_body.h - one body of recorded.cu, in a namespace of its own: attend.h with its tunables,
 * and a team's loop over items. */
#include "../attend/attend.h"

/* Whether this was the last segment of a block to be written. Called by all threads of the team. */
DEVICE int is_last(const attune_args &a, int *counter, int *word)
{
	__threadfence();
	BLOCK_BARRIER();
	if (!BLOCK_THREAD) {
		*word = atomicAdd(counter, 1) == a.segments - 1;
		if (*word)
			*counter = 0;
		__threadfence();
	}
	BLOCK_BARRIER();
	return *word;
}

DEVICE void merge(const attune_args &a, const block &b)
{
	for (int row = BLOCK_THREAD / WARP; row < b.rows; row += NUM_WARPS) {
		const int token = row_token(b, row);
		reduce_row(a, (b.q.seq - a.seq_begin) * a.max_query + token, b.q.first_row, token,
			   row_head(b, row));
	}
}

/* memory: the block's. A team's share ends with a word by which its threads communicate. */
DEVICE void work(const attune_args &a, const recorded_part &p, recorded_part *shared_part,
		 int *counters, unsigned char *memory)
{
	const int team = TEAM, units = p.teams * gridDim.x, items = p.blocks * p.segments;
	unsigned char *mine = memory + team * p.team_bytes;
	int *word = (int *)(mine + p.team_bytes) - 1;
	if (team >= p.teams)
		return;
	for (int item = team * gridDim.x + blockIdx.x; item < items;) {
		const int x = item % p.blocks;
		int next = 0;
		block b;
		if (!BLOCK_THREAD)
			next = units + atomicAdd(&shared_part->taken, 1);
		if (find_block(a, x, p.blocks, item / p.blocks, b)) {
			attend_block(a, b, mine);
			if (a.segments > 1 && is_last(a, counters + x, word))
				merge(a, b);
		}
		BLOCK_BARRIER();
		if (!BLOCK_THREAD)
			*word = next;
		BLOCK_BARRIER();
		item = *word;
	}
	if (!BLOCK_THREAD && atomicAdd(&shared_part->finished, 1) == units - 1)
		shared_part->taken = shared_part->finished = 0;
}
