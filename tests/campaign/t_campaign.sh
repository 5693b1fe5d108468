#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_campaign.sh - a short part of `make campaign` (campaign.sh): five kills, and the disturbances of
# operations that do not measure.
if [ ! -e "${B:-build}/campaign/fault.so" ]; then # make test has built it
	case ${B:-build} in
	*/san) SAN=1 ;;
	esac
	MAKEFLAGS='' ${MAKE:-make} -s NVCC= HIPCC= LOCAL=no STALE=skip B="${B:-build}" SAN="${SAN:-}" \
		"${B:-build}/campaign/fault.so" >&2 || exit 1
fi
export KILLS=5 SEED=1
export OPERATIONS='sweep merge induce plot' CHOSEN='merge induce plot'
export DISTURBANCES='full_disk read_only size_limit locked two_at_once clock_jumps gnuplot_killed'
exec sh tests/campaign/campaign.sh
