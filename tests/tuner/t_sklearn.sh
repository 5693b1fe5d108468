#!/bin/sh
# t_sklearn.sh - compares our trees with scikit-learn's on the committed measurements; skipped without
# Debian's python3-sklearn.
. tests/support/tap.sh
python=/usr/bin/python3
if ! "$python" -c 'import sklearn' 2>/dev/null; then
	echo "1..0 # SKIP python3-sklearn is not installed"
	exit 0
fi
for db in results/*.sqlite; do
	case $db in *_steady.sqlite | *_peers.sqlite) continue ;; esac # nothing is learned from these
	[ -e "$db" ] || continue
	gpu=${db#results/} gpu=${gpu%.sqlite} n=$((n + 1))
	mkdir "$tmp/$gpu"
	if ! "$B/attune" induce --gpu "$gpu" --db "$db" --dump-matrices "$tmp/$gpu"; then
		printf 'not ok 1 - matrices are written\n1..1\n'
		exit 1
	fi
done
if [ $n -eq 0 ]; then
	echo "1..0 # SKIP nothing is committed"
	exit 0
fi
"$python" tests/tuner/t_sklearn.py "$tmp"/*
