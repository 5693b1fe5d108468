/* t_simt_mutants.c - kernels with one mistake each, which the gate must notice by the emulated
 * GPU, in order or in one of a few others. A mistake that is in no text any more fails its row:
 * give it another text, or take the row out with the code. */
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include "tests/support/all_rows.h"
#include <stdio.h>
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>
#include "tests/support/gpu_rows.h"
#include "tests/simt/objects.h"
#include "tests/simt/simt_device.h"
#include "front_rows.h"

enum { SEEDS = 4, UNITS = 7 };

#define E4M3 "8 bits, " /* before a shape's name: with such a cache */

// clang-format off
static const struct mutant {
	const char *name, *file, *text, *instead;
	/* and values of axes that are not the defaults; recorded: run by t_gpu_replay, on the row
	 * that begins so */
	const char *kernel;
	const char *shape;  /* its name begins so */
	const char *batch;
	enum simt_gpu gpu;
} mutants[] = {
	{ "qblock: no barrier between copy and use", "attend_nvidia.h",
	  "BLOCK_BARRIER();\n\t\tif (tile == t0)", "if (tile == t0)",
	  "qblock", "group 4", "q17s257", 0 },
	{ "qblock: a copy is not waited for", "attend_nvidia.h",
	  "copies_wait<NUM_STAGES - 2>();", "",
	  "qblock", "group 4", "q17s257", 0 },
	{ "qblock: halves of B are swapped", "attend_nvidia.h",
	  "mma(s[f][2 * j], q[f], k[0], k[1]);", "mma(s[f][2 * j], q[f], k[1], k[0]);",
	  "qblock", "group 4", "q1s33", 0 },
	{ "qblock: a row sees the next token", "attend_nvidia.h",
	  "b.end - 1, b.end - 1) - column;", "b.end - 1, b.end - 1) - column + 1;",
	  "qblock", "group 4", "q17s257", 0 },
	{ "qblock: the last tile is not masked", "attend.h",
	  "if (last >= b.end || (a.causal", "if ((a.causal",
	  "qblock", "softcap", "q1s33", 0 },
	{ "qblock: a copy of a key that is not there", "attend_nvidia.h",
	  "min(key, b.end - 1), 0);\n\t\tconst int slot = near - page_of(a, near) * a.page_size;",
	  "key, 0);\n\t\tconst int slot = near - page_of(a, near) * a.page_size; const_cast<int &>(valid) = 1;",
	  "qblock", "softcap", "q1s33", 0 },
	{ "qblock: lanes part ways at a shuffle", "attend_nvidia.h",
	  "m = fmaxf(m, shfl_xor(m, 1));", "if (lane_id() < 16) m = fmaxf(m, shfl_xor(m, 1));",
	  "qblock", "group 4", "q1s33", 0 },
	{ "qblock: merges before the last tile is read", "attend_nvidia.h",
	  "BLOCK_BARRIER(); /* the last tile has been read */", "",
	  "qblock", "group 4", "q1s257", 0 },
	{ "segmented: maxima of lanes are not joined", "reduce.h",
	  "m = warp_max(m);", "",
	  "segmented", "group 4", "q1s600", 0 },
	{ "segmented_static: a ticket is read before it is there", "attend_static.h",
	  "__syncthreads();\n\tconst u32 item", "const u32 item",
	  "segmented_static", "group 4", "3q1s600", 0 },
	{ "qblock_static: sums of lanes are not in order", "schedule.h",
	  "v += lane_id() >= far ? below : 0;", "v += below;",
	  "qblock_static", "group 4", "q1s40_q2s9_q1s3", 0 },
	{ "prefix_prefill: no barrier before the next copy", "attend_nvidia.h",
	  "copies_wait<0>();\n\t__syncthreads();", "copies_wait<0>();",
	  "prefix_prefill", "group 4", "q100s300", 0 },
	{ "decode2d: a row too many", "decode2d.cu",
	  "b.rows = tokens * b.row_heads;", "b.rows = tokens * b.row_heads + 1;",
	  "decode2d", "group 4", "q1s33", 0 },
	{ "ring: a copy is not waited for", "ring_tile.h",
	  "copies_wait<NUM_STAGES - 1>();\n\t\t__syncwarp();", "__syncwarp();",
	  "ring", "group 4", "q3s300", 0 },
	{ "ring: a row sees the next token", "ring_tile.h",
	  "if (has_unseen(a, b, first))", "if (0)",
	  "ring", "group 4", "q3s300", 0 },
	{ "ring: a copy of a key that is not there", "ring_keys.h",
	  "valid = key_seen + i * ROWS_A_PASS < keys_seen", "valid = 1",
	  "ring", "group 4", "q1s300", 0 },
	{ "ring: keys of another group of 8", "ring_keys.h",
	  "TILES_A_LOOK * GROUPS + g;", "TILES_A_LOOK * GROUPS;",
	  "ring", "head 256", "q1s300", 0 },
	{ "ring: joins what warps have not left yet", "ring.cu",
	  "__syncthreads();", "",
	  "ring", "group 4", "q3s300", 0 },
	{ "ring: merges what segments have not sent yet", "ring.cu",
	  "parcels_wait(shared_address(box));", ";",
	  "ring", "group 4", "q3s300", 0 },
	{ "ring: a segment's place is another's", "ring.cu",
	  "turn * segments + blockIdx.y)", "turn * segments)",
	  "ring", "group 4", "q3s300", 0 },
	{ "ring: Q is read while it is written", "ring_keys.h",
	  "int waits = early;", "int waits = 0;",
	  "ring", "group 4", "q3s300", 0 },
	{ "ring: shared Q is read while it is written", "ring_keys.h",
	  "int waits = early;", "int waits = 0;",
	  "ring", "head 256", "q3s300", 0 },
	{ "ring: a key of this step is copied while it is written", "ring_keys.h",
	  "<= b.q.seq_len - b.q.query_len", "<= b.q.seq_len",
	  "ring", "group 4", "q3s304", 0 },
	{ "ring: a warp waits for the launch in front when it has written", "ring_keys.h",
	  "int waits = early;", "int waits = threadIdx.x < WARP ? 0 : early;",
	  "ring", "group 4", "q3s300", 0 },
	{ "ring: writes before the launch in front is over", "ring_keys.h",
	  "int waits = early;", "int waits = early;\n\tif (early)\n\t\t((half16 *)a.out)[threadIdx.x] = 0;",
	  "ring", "group 4", "q3s300", 0 },
	{ "reduce_wide: a warp's share is read before it is there", "reduce_wide.cu",
	  "__syncthreads();", "",
	  "ring COMBINE=2 SEGMENTS=4", "group 4", "q3s304", 0 },
	{ "reduce_wide: warps' sums are not of one base", "reduce_wide.cu",
	  "exp2_fast(all.top[w] - not_below(top))", "1",
	  "ring COMBINE=2 SEGMENTS=4", "group 4", "q3s304", 0 },
	{ "ring_list: the first to arrive merges", "ring_list.cu",
	  "return came == parts;", "return came == 1;",
	  "ring_list", "group 4", "q3s300", 0 },
	{ "ring_list: two partials in one place", "ring_list.cu",
	  "deal_slot(block, s.owner)", "2 * block",
	  "ring_list", "group 4", "6q3s300", 0 },
	{ "ring_list: the next item's keys come while the last one's are merged", "ring_list.cu",
	  "__syncthreads(); /* and it has been read */", "",
	  "ring_list", "group 4", "6q3s300", 0 },
	{ "ring_list: sums are read before all are there", "ring_list.cu",
	  "sums[warp] = up_to;\n\t__syncthreads();", "sums[warp] = up_to;",
	  "ring_list", "group 4", "q3s300", 0 },
	{ "ring_list: begins before its place is found", "ring_list.cu",
	  "__syncthreads();\n\treturn found;", "return found;",
	  "ring_list", "group 4", "q3s300", 0 },
	{ "ring_list: what lies in the workspace counts", "ring_list.cu",
	  "(old & ~0xffffull) == MARK ?", "1 ?",
	  "ring_list", "group 4", "q3s300", 0 },
	{ "warpgroup: a chunk is where another swizzle has it", "warpgroup_tile.h",
	  "at >> 7 & (u32)(chunks - 1)",
	  "at >> 8 & (u32)(chunks - 1)",
	  "warpgroup", "group 4", "q17s257", 0 },
	{ "warpgroup: a piece of V is as far as a group", "warpgroup_rows.h",
	  "PIECE_BYTES(PIECE), GROUP_BYTES(HEAD_SIZE));",
	  "GROUP_BYTES(HEAD_SIZE), GROUP_BYTES(HEAD_SIZE));",
	  "warpgroup", "group 4", "q17s257", 0 },
	{ "warpgroup: a row sees the next token", "warpgroup_scores.h",
	  "min(position + below, last) : last;",
	  "min(position + below + 1, last) : last;",
	  "warpgroup", "group 4", "q17s257", 0 },
	{ "warpgroup: the tile of the diagonal counts as whole", "warpgroup_rows.h",
	  "inner : seen / TILE_SIZE;",
	  "inner : (seen + TILE_SIZE) / TILE_SIZE;",
	  "warpgroup", "group 4", "q300s600", 0 },
	{ "warpgroup: V beyond the sequence stays", "warpgroup_rows.h",
	  "if (from >= to)\n\t\treturn;",
	  "return;",
	  "warpgroup", "group 4", "q17s257", 0 },
	{ "warpgroup: V is cleared before it is there", "warpgroup_rows.h",
	  "gate_wait(gate(t.h->v_full, t.v.at), t.v.parity);\n\tfor",
	  "for",
	  "warpgroup", "group 4", "q17s257", 0 },
	{ "warpgroup: Q is read before it is there", "warpgroup_rows.h",
	  "gate_wait(gate(t.h->q_full, t.q.at), t.q.parity);",
	  "",
	  "warpgroup", "group 4", "q300s600", 0 },
	{ "warpgroup: Q is overwritten while it is read", "warpgroup_16bit.h",
	  "gate_wait(gate(h.q_empty, to.at), to.parity ^ 1);",
	  "",
	  "warpgroup", "group 4", "5q200s600", 0 },
	{ "warpgroup: a tile is overwritten while it is read", "warpgroup_16bit.h",
	  "gate_wait(gate(empty, to.at), to.parity ^ 1);",
	  "",
	  "warpgroup", "group 4", "q300s600", 0 },
	{ "warpgroup: a team leaves its own rows to the other", "warpgroup_rows.h",
	  "number * 64 * HEAD_SIZE * 2",
	  "0 * HEAD_SIZE * 2",
	  "warpgroup", "group 4", "q100s600", 0 },
	{ "warpgroup: a row's position is that of a block not packed", "warpgroup_scores.h",
	  "t.i.position + place_in(a, t, 0).token - key;",
	  "t.i.position + t.row - key;",
	  "warpgroup PACKED=1", "group 4", "q17s257", 0 },
	{ "warpgroup: a thread's second row is 8 tokens further", "warpgroup_scores.h",
	  "PACKED ? place_in(a, t, r).token - place_in(a, t, 0).token : 8 * r",
	  "8 * r",
	  "warpgroup PACKED=1", "group 4", "q17s257", 0 },
	{ "warpgroup: a team sees what its last row would not packed", "warpgroup_rows.h",
	  "lead = place_of(a, t.number * 64).token,",
	  "lead = t.number * 64,",
	  "warpgroup PACKED=1", "group 4", "q40s650", 0 },
	{ "warpgroup: a packed block is as long as one that is not", "warpgroup_items.h",
	  "return place_of(a, BLOCK_M).token;",
	  "return BLOCK_M;",
	  "warpgroup PACKED=1", "group 4", "q100s600", 0 },
	{ "warpgroup: a sequence's last block is forgotten", "warpgroup_items.h",
	  "whole_blocks(o, query_len + block_tokens(a) - 1);",
	  "whole_blocks(o, query_len);",
	  "warpgroup PACKED=1", "group 4", "q100s600", 0 },
	{ "warpgroup: tiles between two segments are lost", "warpgroup_items.h",
	  "tiles * i.segment / a.segments;",
	  "tiles * i.segment / a.segments + 1;",
	  "warpgroup SEGMENTS=3", "group 4", "q100s600", 0 },
	{ "warpgroup: a segment ends with the sequence", "warpgroup_items.h",
	  "i.end = min(i.end, i.last * TILE_SIZE);",
	  "",
	  "warpgroup SEGMENTS=3", "group 4", "q100s603", 0 },
	{ "warpgroup: Q blocks have the same partials", "warpgroup_items.h",
	  "* a.max_query + q.token;\n\ti.goes_to",
	  "* a.max_query;\n\ti.goes_to",
	  "warpgroup SEGMENTS=3 PACKED=1", "group 4", "q100s600", 0 },
	{ "warpgroup: Q is read while it is written", "warpgroup_16bit.h",
	  "wait_for_last();\n\t_Pragma",
	  "warp < 2 ? wait_for_last() : (void)0;\n\t_Pragma",
	  "warpgroup", "group 4", "q100s600", 0 },
	{ "warpgroup: a key of this step is copied while it is written", "warpgroup_16bit.h",
	  "wait_for_last();\n\t_Pragma",
	  "warp >= 2 ? wait_for_last() : (void)0;\n\t_Pragma",
	  "warpgroup", "group 4", "q100s600", 0 },
	{ "warpgroup, 8 bits: Q is read while it is written", "warpgroup_e4m3.h",
	  "if (is_early(a) && round == 1)\n\t\t\twait_for_last();",
	  "",
	  "warpgroup", E4M3 "group 4", "q100s600", 0 },
	{ "warpgroup, 8 bits: V beyond the sequence stays", "warpgroup_e4m3.h",
	  "if ((tile + 1) * TILE_SIZE > i.end || tile * TILE_SIZE < i.dead)",
	  "if (0)",
	  "warpgroup", E4M3 "group 4", "q17s257", 0 },
	{ "warpgroup, 8 bits: a tile is overwritten while it is read", "warpgroup_e4m3.h",
	  "gate_wait(f.empty + f.to.at * 8, f.to.parity ^ 1);",
	  "",
	  "warpgroup", E4M3 "group 4", "q300s600", 0 },
	{ "pod: an item is read before it is there", "pod.cu",
	  "__syncthreads();\n\treturn t;", "return t;",
	  "pod", "group 4", "q40_3q1s200", 0 },
	{ "warpgroup_mixed: an item is read before it is found", "warpgroup_mixed.cu",
	  "gate_wait(gate_of(f.full, round), parity);", "",
	  "warpgroup_mixed", "group 4", "q40_3q1s200", 0 },
	{ "warpgroup_mixed: gates are used before they are made", "warpgroup_mixed.cu",
	  "__syncthreads();\n\tif (warp >= 4)", "if (warp >= 4)",
	  "warpgroup_mixed", "group 4", "q40_3q1s200", 0 },
	{ "warpgroup_mixed: an item is left out", "warpgroup_mixed.cu",
	  "return given + shfl(n, 0);", "return given + 1 + shfl(n, 0);",
	  "warpgroup_mixed", "group 4", "q300_3q1s200", 0 },
	{ "warpgroup_mixed: two blocks have one number", "warpgroup_mixed.cu",
	  "return is_later ? last - later : first;", "return first;",
	  "warpgroup_mixed", "group 4", "q900_1q1s200", 0 },
	{ "warpgroup_mixed: joins segments before all are there", "warpgroup_mixed.cu",
	  "if (!last_to_arrive(c.args, t, segments))", "if (t.i.segment)",
	  "warpgroup_mixed PREFILL_SEGMENTS=3", "group 4", "q40s600_3q1s200", 0 },
	{ "naive: no barrier before the merge", "naive.cu",
	  "__syncthreads();", "",
	  "naive", "group 4", "q1s33", 0 },
	{ "classic_v1: weights are overwritten while they are read", "classic.h",
	  "__syncthreads(); /* weights are read */", "",
	  "classic_v1", "classic, group 4", "q1s300", 0 },
	{ "classic_v2: slots behind the sequence count", "classic.h",
	  "key + j < s.end ? x[j] : 0.f;", "key + j < s.end ? x[j] : x[j];",
	  "classic_v2", "classic, group 4", "q1s33", 0 },
	{ "mi300, naive: no barrier before the merge", "naive.cu",
	  "__syncthreads();", "",
	  "naive", "group 4", "q1s33", SIMT_MI300X },
	{ "mi300, naive: halves of a wave are not joined", "naive.cu",
	  "mask = WARP / 2", "mask = WARP / 4",
	  "naive", "group 4", "q1s33", SIMT_MI300X },
	{ "mi300, naive: a lane's number for its address", "gpu_amd.h",
	  "ds_bpermute(lane * 4, v)", "ds_bpermute(lane, v)",
	  "naive", "group 4", "q1s33", SIMT_MI300X },
	{ "mi300, naive: halves of a pair are swapped", "gpu_amd.h",
	  "(half16, l) | (u32)__builtin_bit_cast(half16, h) << 16",
	  "(half16, h) | (u32)__builtin_bit_cast(half16, l) << 16",
	  "naive", "group 4", "q1s33", SIMT_MI300X },
	{ "mi300, classic_v1: weights are overwritten while they are read", "classic.h",
	  "__syncthreads(); /* weights are read */", "",
	  "classic_v1", "classic, group 4", "q1s300", SIMT_MI300X },
	{ "mi300, classic_v2: maxima of lanes are not joined", "reduce.h",
	  "m = warp_max(m);", "",
	  "classic_v2", "classic, group 4", "q1s900", SIMT_MI300X },
	{ "mi300, qblock: a row sees the next token", "attend_amd.h",
	  "b.end - 1, b.end - 1) - column;", "b.end - 1, b.end - 1) - column + 1;",
	  "qblock", "group 4", "q17s257", SIMT_MI300X },
	{ "mi300, qblock: keys of a lane are another's", "attend_amd.h",
	  "const int column = first_key + lane_id() / 16 * 4;",
	  "const int column = first_key + lane_id() / 16;",
	  "qblock", "group 4", "q17s257", SIMT_MI300X },
	{ "mi300, qblock: results of a lane are another's", "attend_amd_out.h",
	  "w * (4 * g + e)", "w * (g + 4 * e)",
	  "qblock", "group 4", "q1s33", SIMT_MI300X },
	{ "mi300, qblock: values beyond the end are not cleared", "attend_amd.h",
	  "if (EVEN && (key + WARP_KEYS > b.end || key < w.first))", "if (0)",
	  "qblock", "softcap", "q1s33", SIMT_MI300X },
	{ "mi300, qblock: maxima of a wave's halves differ", "attend_amd.h",
	  "m = fmaxf(m, shfl_xor(m, 32));", "",
	  "qblock", "group 4", "q1s257", SIMT_MI300X },
	{ "mi300, qblock: a sum lacks half of the wave", "attend_amd.h",
	  "t.l[f] += shfl_xor(t.l[f], 32);", "",
	  "qblock", "group 4", "q1s257", SIMT_MI300X },
	{ "mi300, qblock: seconds of a pair for firsts", "gpu_amd.h",
	  "0x05040100", "0x07060302",
	  "qblock", "group 4", "q1s33", SIMT_MI300X },
	{ "mi300, qblock: a wave is merged before it has left all", "attend_amd_out.h",
	  "BLOCK_BARRIER();\n\t\tif (warp_n < half)", "if (warp_n < half)",
	  "qblock", "group 4", "q1s257", SIMT_MI300X },
	{ "mi300, qblock: merges what another wave left", "attend_amd_out.h",
	  "(warp_n + half) % places", "warp_n % places",
	  "qblock", "group 4", "q1s257", SIMT_MI300X },
	{ "mi300, prefix_prefill: a tile is used before it is there", "attend_amd_keys.h",
	  "= c.v_held[i];\n\t}\n\tBLOCK_BARRIER();", "= c.v_held[i];\n\t}",
	  "prefix_prefill", "group 4", "q100s300", SIMT_MI300X },
	{ "mi300, prefix_prefill: a tile is overwritten while it is read", "attend_amd_keys.h",
	  "BLOCK_BARRIER(); /* the tile before has been read */", ";",
	  "prefix_prefill", "group 4", "q100s300", SIMT_MI300X },
	{ "mi300, pod: values beyond the end are not cleared", "attend_amd.h",
	  "if (EVEN && (c.keys < TILE_SIZE || c.front > 0))", "if (0)",
	  "pod", "window", "q40_3q1s200", SIMT_MI300X },
	{ "planner: what is absent is not zeroed", "planner.cu",
	  "recorded_clear(&out[threadIdx.x]);", "",
	  "recorded", "a head size without", NULL, 0 },
	{ "planner: the first to come is taken", "planner.cu",
	  "least == m.rank", "least >= m.rank",
	  "recorded", "decodes by bodies", NULL, 0 },
	{ "recorded: counters are not cleared", "planner.cu",
	  "counter[i] = 0;", ";",
	  "recorded", "mixed, head 256", NULL, 0 },
	{ "ring_list_recorded: the range begins with the batch", "ring_list_recorded.cu",
	  "c.args.seq_begin = p.seq_begin;", "",
	  "recorded", "mixed, group 4", NULL, 0 },
	{ "recorded: a team goes on before all have its item", "recorded_body.h",
	  "*word = next;\n\t\tBLOCK_BARRIER();", "*word = next;",
	  "recorded", "a head size without", NULL, 0 },
};
// clang-format on

static const struct mutant *now;

static void folder_of(char *path, size_t size, const struct mutant *m)
{
	snprintf(path, size, "mutant%d", (int)(m - mutants));
}

/* ---- the text ----------------------------------------------------------------------------- */

static void write_file(const char *path, const char *first, size_t n, const char *second,
		       const char *rest)
{
	FILE *f = fopen(path, "w");
	if (!f || fwrite(first, 1, n, f) != n || fputs(second, f) < 0 || fputs(rest, f) < 0 ||
	    fclose(f))
		fail_msg("%s cannot be written", path);
}

static void copy_file(const struct mutant *m, const char *folder, const char *name)
{
	char from[SIMT_PATH], to[SIMT_PATH];
	snprintf(from, sizeof from, "%s/gpu/%s", simt_folder(), name);
	snprintf(to, sizeof to, "%s/%s/%s", simt_folder(), folder, name);
	char *text = source_text(from);
	assert_non_null(text);
	char *at = strcmp(name, m->file) ? NULL : strstr(text, m->text);
	if (!at && !strcmp(name, m->file))
		fail_msg("%s: has no more \"%s\"", name, m->text);
	if (at)
		write_file(to, text, (size_t)(at - text), m->instead, at + strlen(m->text));
	else
		write_file(to, text, strlen(text), "", "");
	free(text);
}

/* All of gpu/ beside it, so that includes find the mistake. */
static void make_folder(const struct mutant *m)
{
	char folder[32], path[SIMT_PATH];
	folder_of(folder, sizeof folder, m);
	snprintf(path, sizeof path, "%s/%s", simt_folder(), folder);
	mkdir(path, 0777);
	snprintf(path, sizeof path, "%s/gpu", simt_folder());
	DIR *d = opendir(path);
	assert_non_null(d);
	for (const struct dirent *e; (e = readdir(d));)
		if (*e->d_name != '.')
			copy_file(m, folder, e->d_name);
	closedir(d);
}

/* ---- runs --------------------------------------------------------------------------------- */

static enum attune_status load_code(struct code **code, const struct kernel *k, const char *flags)
{
	char folder[32], source[100];
	folder_of(folder, sizeof folder, now);
	snprintf(source, sizeof source, "%s/%s", folder, strrchr(k->source, '/') + 1);
	return simt_load(&dev, code, source, flags);
}

static void make_row(struct row *r, const struct mutant *m)
{
	char name[32];
	snprintf(name, sizeof name, "%.*s", (int)strcspn(m->kernel, " "), m->kernel);
	*r = (struct row){ .choice = default_choice(kernel_find(BACKEND_GPU, name)) };
	const int is_e4m3 = !strncmp(m->shape, E4M3, strlen(E4M3));
	const char *shape = m->shape + (is_e4m3 ? strlen(E4M3) : 0);
	while (strncmp(shapes[r->shape].name, shape, strlen(shape)))
		assert_true(++r->shape < (int)COUNT(shapes));
	attune_shape *s = &shapes[r->shape].s;
	s->kv_dtype = is_e4m3 ? ATTUNE_E4M3 : s->dtype;
	s->has_new_kv = !is_e4m3;
	/* tickets, clusters and early launches, where there are any */
	for (int i = 0; i < r->choice.kernel->space->num_axes; i++) {
		const char *axis = r->choice.kernel->space->axis[i].name;
		if (!strcmp(axis, "TICKETS") || !strcmp(axis, "COMBINE") || !strcmp(axis, "EARLY"))
			r->choice.config.v[i] = 1;
	}
	choice_change(&r->choice, m->kernel + strlen(name));
}

static int is_noticed_by_the_gate(const struct mutant *m)
{
	struct row r;
	struct loaded l;
	struct verdict v = { .outcome = OUTCOME_OK };
	simt_pose(&dev, m->gpu);
	make_row(&r, m);
	load_choice(&l, &r.choice, &shapes[r.shape].s);
	front_shape = &shapes[r.shape].s;
	simt_say_front(&dev, m->gpu == SIMT_H200 ? what_is_pending : NULL);
	struct code *codes[1 + NUM_HELPERS] = { l.code };
	int n = 1;
	for (enum helper h = 0; h < NUM_HELPERS; h++)
		if (l.helper[h])
			codes[n++] = l.helper[h];
	assert_int_equal(simt_compile(codes, n), ATTUNE_OK);
	for (unsigned seed = 0; seed < SEEDS && v.outcome == OUTCOME_OK; seed++) {
		simt_set(&dev, UNITS, seed);
		run_phases(&v, &r, &l, m->batch, ~0u);
	}
	unload_choice(&l);
	return v.outcome != OUTCOME_OK;
}

static int is_noticed_by_replays(const struct mutant *m)
{
	char folder[32], command[3 * SIMT_PATH];
	folder_of(folder, sizeof folder, m);
	snprintf(command, sizeof command, "ATTUNE_SIMT_SOURCES=%s '%s/../t_gpu_replay' '%s' 2>&1",
		 folder, simt_folder(), m->shape);
	FILE *replays = popen(command, "r");
	char line[400];
	int rows_seen = 0, failed = 0;
	assert_non_null(replays);
	while (fgets(line, sizeof line, replays)) {
		rows_seen += !strncmp(line, "ok", 2) || !strncmp(line, "not ok", 6);
		failed += !strncmp(line, "not ok", 6);
		if (strstr(line, "no object for the host"))
			fail_msg("%s", line);
	}
	pclose(replays);
	assert_true(rows_seen > 0);
	return failed > 0;
}

static void is_noticed(void **state)
{
	now = *state;
	make_folder(now);
	if (!(strcmp(now->kernel, "recorded") ? is_noticed_by_the_gate(now)
					      : is_noticed_by_replays(now)))
		fail_msg("%s: \"%s\" for \"%s\" goes unnoticed", now->file, now->instead,
			 now->text);
}

int main(void)
{
	static struct CMUnitTest tests[COUNT(mutants)];
	const size_t step = all_rows_asked() ? 1 : 2;
	size_t n = 0;
	if (simt_open(&dev, UNITS, 0)) {
		printf("Bail out! %s\n", attune_last_error());
		return 1;
	}
	simt_give_up_after(&dev, 2); /* a mistake may make a loop endless */
	for (size_t i = 0; i < COUNT(mutants); i += step)
		tests[n++] = (struct CMUnitTest){ mutants[i].name, is_noticed, NULL, NULL,
						  (void *)(uintptr_t)&mutants[i] };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const int failed = _cmocka_run_group_tests("simt_mutants", tests, n, NULL, NULL);
	pool_free(&dev, pool);
	device_close(&dev);
	return failed;
}
