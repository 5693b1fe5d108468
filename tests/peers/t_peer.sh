#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_peer.sh - peers, kernels in Python: the rows of one that is right, is wrong, raises, hangs or crashes; the
# line for each fault of a peer's file; the folders that the interpreter does not import from.
. tests/support/tap.sh
export ATTUNE_THREADS=1 # a pool's waiting threads would take CPU time from other tests
export ATTUNE_LOCKS="$tmp" ATTUNE_PROC="$tmp" # a machine of its own: without processes
export ATTUNE_CLOCK=1                         # a race takes a second of the budget

attune() {
	timeout 1200 "$B/attune" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
}
are() { # WANT DB SQL: what the database answers
	sqlite3 "$tmp/$2.sqlite" "$3" >"$tmp/log"
	[ "$(cat "$tmp/log")" = "$1" ]
}
refused() { # NAME STATUS TEXT...: the last command's only line has each text
	name=$1 status=$2
	shift 2
	good=0
	[ "$status" -eq 2 ] && [ "$(wc -l <"$tmp/err")" -eq 1 ] || good=1
	for text; do grep -qF -- "$text" "$tmp/err" || good=1; done
	row $good "$name"
}
python=python3
"$python" -I -c 'import sys, sysconfig
sys.exit(not (sysconfig.get_config_var("Py_ENABLE_SHARED") and (3, 9) <= sys.version_info[:2] <= (3, 13)))' \
	2>/dev/null || { echo "1..0 # SKIP no python3, 3.9 to 3.13, with a shared libpython"; exit 0; }

cp tests/peers/*.py "$tmp" && ${CC:-cc} -O2 -fPIC -shared tests/peers/attend.c -o "$tmp/attend.so" -lm
row $? 'the kernel of the peer builds'
cat >"$tmp/set.json" <<'SET'
{
	"defaults": { "models": [ "llama3.1-8b@8" ] },
	"scenarios": [ { "batch": "3q1s40" }, { "batch": "q16_2q1s20" } ]
}
SET
sweep="sweep --gpu cpu --scenarios $tmp/set.json --preset smoke --budget 300s"
peer() { # DB FAULT [OPTION...]: races the peer that does this wrong
	db=$1 fault=$2
	shift 2
	sed "s/^FAULT = .*/FAULT = \"$fault\"/" tests/peers/native_peer.py >"$tmp/native_peer.py"
	# shellcheck disable=SC2086
	attune $sweep --db "$tmp/$db.sqlite" --peer "$tmp/native_peer.py" "$@"
}

# Its file never ends. The limit is a minute, so it waits beside the other rows; the last ones read its line.
echo 'import time; time.sleep(600)' >"$tmp/endless.py"
timeout 300 "$B/attune" sweep --gpu cpu --dry-run --peer "$tmp/endless.py" >"$tmp/endless.out" 2>"$tmp/endless.err" </dev/null &
endless=$!

# ---- a race -----------------------------------------------------------------------------
peer db '' --kernels native,segmented
row $? 'it races'
are 'all decode prefill' db "SELECT group_concat(phase, ' ') FROM (SELECT DISTINCT phase FROM history
	WHERE kernel = 'native' AND outcome IN ('ok', 'noisy') AND median_us > 0 ORDER BY phase)"
row $? 'it is timed with decodes, prefills and whole batches'
are ok db "SELECT DISTINCT outcome FROM history WHERE kernel = 'native' AND outcome <> 'noisy'"
row $? 'and is right everywhere'
are '1 2' db "SELECT group_concat(steps, ' ') FROM (SELECT DISTINCT substr(flags, instr(flags, '-DSTEPS=') + 8) AS steps
	FROM history WHERE kernel = 'native' ORDER BY 1)"
row $? 'its tunable is an axis'
are 1 db "SELECT count(DISTINCT substr(flags, 1, instr(flags, ' '))) FROM history WHERE kernel = 'native'
	AND flags GLOB '-DPLUGIN=[0-9a-f]* *' AND ifnull(detail, '') GLOB 'planned in [0-9]*.[0-9] us'"
row $? 'flags have its version, detail what planning took'
attune show --gpu cpu --db "$tmp/db.sqlite" --model llama3.1-8b@8 --batch 3q1s40 --peer "$tmp/native_peer.py"
[ $? -eq 0 ] && grep -q 'native STEPS=' "$tmp/out"
row $? 'show lists it'
echo '# a comment' >>"$tmp/native_peer.py"
# shellcheck disable=SC2086
attune $sweep --kernels native,segmented --db "$tmp/db.sqlite" --peer "$tmp/native_peer.py"
grep -q 'nothing to do' "$tmp/err"
row $? 'a comment does not make it another version'

# ---- failures ---------------------------------------------------------------------------
peer wrong scale --kernels native,segmented
are 'wrong 0' wrong "SELECT DISTINCT outcome || ' ' || ifnull(median_us, 0) FROM history WHERE kernel = 'native'"
row $? 'a wrong one is recorded so and has no time'
are 0 wrong "SELECT sum(kernel = 'segmented' AND outcome = 'ok') = 0 FROM history"
row $? "attune's own go on"
peer fails launch --kernels native
are 1 fails "SELECT count(DISTINCT outcome) FROM history WHERE kernel = 'native' AND outcome = 'resources'
	AND detail LIKE '%ValueError: it launches nothing, on no card'"
row $? 'an exception is a failure with its line'
peer unprepared prepare --kernels native
are 1 unprepared "SELECT count(DISTINCT outcome) FROM history WHERE kernel = 'native' AND outcome = 'resources'
	AND detail LIKE '%prepare: MemoryError: it has no room'"
row $? 'so is one while it is prepared'
peer crash crash --kernels native --phases decode
are crash crash "SELECT DISTINCT outcome FROM history WHERE kernel = 'native'"
row $? 'one that ends the process crashes'
cat >"$tmp/set.json" <<'SET'
{
	"defaults": { "models": [ "llama3.1-8b@8" ] },
	"scenarios": [ { "batch": "2q1s20" } ]
}
SET
sed 's/(1, 2)/(1,)/; s/^FAULT = .*/FAULT = "hang"/' tests/peers/native_peer.py >"$tmp/hanging.py"
# shellcheck disable=SC2086
attune $sweep --kernels native --db "$tmp/hang.sqlite" --peer "$tmp/hanging.py"
are timeout hang "SELECT DISTINCT outcome FROM history WHERE kernel = 'native'"
row $? 'one that hangs ends by the limit of time'

# ---- what is missing --------------------------------------------------------------------
ask() { # TEXT: a peer of one line
	printf '%s\n' "$1" >"$tmp/one.py"
	attune sweep --gpu cpu --dry-run --peer "$tmp/one.py"
}
attune sweep --gpu cpu --dry-run --peer "$tmp/no.py"
refused 'no such file' $? "--peer $tmp/no.py: there is no such file"
attune sweep --gpu cpu --dry-run --peer "$tmp"
refused 'a folder' $? "--peer $tmp: it is not a regular file"
attune sweep --gpu cpu --dry-run --with ''
refused 'an empty name' $? 'attune has no peer ""'
attune sweep --gpu cpu --dry-run --with no_such_peer
refused 'no such peer' $? 'attune has no peer "no_such_peer"' "$(cd harness/peers && ls -- *.py | grep -vx host.py |
	sed 's/\.py$//' | paste -sd, | sed 's/,/, /g; s/^/; it has /')"
attune sweep --gpu cpu --dry-run --with ../peers/host
refused 'a path for a name' $? 'attune has no peer "../peers/host"'
attune sweep --gpu cpu --dry-run --peer "$tmp/native_peer.py" --python "$tmp/no_python"
refused 'no interpreter' $? "$tmp/no_python could not run" '--python PATH names one'
ask 'import no_such_package_of_any'
refused 'a package that is not there' $? "No module named 'no_such_package_of_any'"
ask 'class Peer: name, packages = "one", ("no-such-package",)'
refused 'a package without a release' $? 'has no package no-such-package'
ask 'def f(:'
refused 'no Python' $? 'SyntaxError'
ask 'x = 1'
refused 'no class' $? 'it has no class Peer'
ask 'class Peer: name = "one"; prepare = plan = print'
refused 'a method that is missing' $? 'its class Peer has no launch'
ask 'class Peer: name = "One"; backends = ("cpu",); prepare = plan = launch = print'
refused 'a name that no kernel may have' $? 'its name is not of lower-case letters'
ask 'class Peer: name = "one"; backends = ("tpu",); prepare = plan = launch = print'
refused 'a device that is none' $? 'says backend tpu'
ask 'class Peer: name = "one"; axes = { "A": () }; backends = ("cpu",); prepare = plan = launch = print'
refused 'an axis without values' $? 'says axis A'
peer_of() { # TEXT: a class that has this, too
	ask "class Peer: name = \"one\"; backends = (\"cpu\",); prepare = plan = launch = print; $1"
}
peer_of 'axes = { "A": (1.5,) }'
refused 'a value that is no integer' $? "TypeError: 'float' object cannot be interpreted as an integer"
peer_of 'axes = { "A": (1 << 32,) }'
refused 'a value that C has no int for' $? 'axes: 4294967296 does not fit in 32 bits'
peer_of 'head_sizes = ("64x",)'
refused 'a head size that is none' $? "TypeError: 'str' object"
peer_of 'features = ("windows",)'
refused 'a feature that is none' $? 'says features windows, which attune does not take'
peer_of 'needs = ("room",)'
refused 'a need that is none' $? 'says needs room, which attune does not take'
peer_of 'backends = ()'
refused 'no device' $? 'backends: it names none'
peer_of 'backends = ("hip", "cuda")'
refused 'two kinds of GPU' $? 'backends: it names cuda and hip, which should be one of them'
peer_of 'about = 9999 * "a"'
refused 'a long text' $? 'says about aaaa'
ask 'class E(Exception): __str__ = None
raise E()'
refused 'an exception without a text' $? 'E: no reason given'

# ---- what is not imported ---------------------------------------------------------------
mkdir "$tmp/folder"
for module in ctypes tokenize attend os; do
	echo 'open("imported", "w")' >"$tmp/folder/$module.py"
done
cp "$tmp/native_peer.py" "$tmp/attend.so" "$tmp/folder"
where=$(pwd)
case $B in /*) program=$B ;; *) program=$where/$B ;; esac
sed -i 's/^FAULT = .*/FAULT = ""/' "$tmp/folder/native_peer.py"
# shellcheck disable=SC2086
(cd "$tmp/folder" && PYTHONPATH=. timeout 600 "$program/attune" $sweep --dir "$where/scenarios" --kernels native \
	--db "$tmp/folder.sqlite" --peer native_peer.py) >"$tmp/out" 2>"$tmp/err" </dev/null
are ok folder "SELECT DISTINCT outcome FROM history WHERE kernel = 'native' AND outcome <> 'noisy'" &&
	[ ! -e "$tmp/folder/imported" ]
row $? 'neither the current folder nor PYTHONPATH is imported from'

# ---- with numpy -------------------------------------------------------------------------
if "$python" -I -c 'import numpy' 2>/dev/null; then
	# shellcheck disable=SC2086
	attune $sweep --kernels numpy_attention --db "$tmp/numpy.sqlite" --peer tests/peers/numpy_peer.py
	are ok numpy "SELECT DISTINCT outcome FROM history WHERE kernel = 'numpy_attention' AND outcome <> 'noisy'"
	row $? 'tensors as arrays of numpy'
else
	echo "ok $((n += 1)) - tensors as arrays of numpy # SKIP no numpy"
fi

wait "$endless"
status=$?
cp "$tmp/endless.err" "$tmp/err"
refused 'a file that never ends' "$status" "--peer $tmp/endless.py: loading the file took more than 60 s"
end_rows
