#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# slurm_sweep.sh - a sweep by several machines of a Slurm cluster: an array job, each task of which measures its share of
# the scenarios, then a job that joins their databases. The folder of DB must be one that all machines share.
#
#   bash slurm_sweep.sh TASKS DB [OPTION OF attune sweep]...
#   SBATCH_PARTITION=gpu bash slurm_sweep.sh 4 results/local/h100.sqlite --gpu h100 --preset full --budget 20m
set -euo pipefail
[ $# -ge 2 ] || { sed -n 's/^#   //p' "$0" >&2; exit 2; }
tasks=$1 db=$2
shift 2
mkdir -p "$(dirname "$db")"

sweep="attune sweep --db ${db@Q}.\$SLURM_ARRAY_TASK_ID --shard \$SLURM_ARRAY_TASK_ID/$tasks ${*@Q}"
job=$(sbatch --parsable --job-name=attune --array="1-$tasks" --gres=gpu:1 --exclusive --time=1:00:00 --wrap "$sweep")
shards=()
for ((i = 1; i <= tasks; i++)); do shards+=("$db.$i"); done
sbatch --job-name=attune-merge --dependency="afterok:$job" --wrap "attune merge ${db@Q} ${shards[*]@Q}"
