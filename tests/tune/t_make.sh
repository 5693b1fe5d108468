#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_make.sh - settings of make: those of the command line alone, passed on as they are, or refused in one
# line.
. tests/support/tap.sh
unset ATTUNE_MAKE # make test has made it

target=tune

# A tool that lists what it was called with, one word a line.
printf '#!/bin/sh\nprintf "[%%s]\\n" "$@" >>%s/words\n' "$tmp" >"$tmp/attune"
chmod +x "$tmp/attune"

run() { # SETTING...: what `make $target` calls, with nothing installed and nothing built
	rm -f "$tmp/words"
	MAKEFLAGS='' make "$target" MAKE=true deps=true bare="$tmp/attune" NVCC= HIPCC= "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
	code=$?
}
given() { # OPTION VALUE: whether the tool was called with it
	grep -Fx -A1 "[$1]" "$tmp/words" | grep -Fqx "[$2]"
}
refused() { # TEXT: one line, which has it
	[ $code != 0 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -qF "$1" "$tmp/err"
}

run RESULTS="$tmp" SCENARIOS='my set.json' MODEL='a "b" `c`@1' GPU='x y' BUDGET='1 m'
row "$([ $code = 0 ] && given --scenarios 'my set.json' && given --model 'a "b" `c`@1' && given --gpu 'x y' &&
	given --budget '1 m' && given --results "$tmp"; echo $?)" "blanks, double quotes and backquotes in settings"
row "$(grep -Eqx 'make tune took [0-9]+ s: building the tool [0-9]+ s, the tune [0-9]+ s, building the library [0-9]+ s' \
	"$tmp/out"; echo $?)" "and its time has names, that of building too"
run RESULTS="$tmp" TRACE="$tmp/it's my.csv" SCENARIOS="it's.json"
row "$([ $code = 0 ] && given --trace "$tmp/it's my.csv" && given --scenarios "it's.json" &&
	given --steps "$tmp/local/trace_it_s_my.json"; echo $?)" "single quotes in settings"
run RESULTS="$tmp" TRACE=-my.csv
row "$([ $code = 0 ] && [ ! -s "$tmp/err" ] && given --steps "$tmp/local/trace_-my.json"; echo $?)" "a trace whose name begins with a hyphen"
run RESULTS="$tmp" STEPS="it's steps.jsonl"
row "$([ $code = 0 ] && given --steps "it's steps.jsonl"; echo $?)" "captured steps"
run STEPS=a TRACE=b
row "$(refused 'attune: STEPS and TRACE are one traffic each'; echo $?)" "captured steps and a trace: one line"
run RESULTS="$tmp" GPU="it's" COMPILE_ONLY=1 B=build
row "$([ $code = 0 ] && given --gpu "it's"; echo $?)" "a quote in GPU where it only compiles"

target=confirm
run GPU=cpu FILL=--fill
row "$([ $code = 0 ] && given sweep --confirm && given --gpu cpu && grep -Fqx '[--fill]' "$tmp/words"; echo $?)" "make confirm calls sweep --confirm"
target=tune

export GPU=env_gpu PRESET=env_preset BUDGET=env_budget MODEL=env_model SCENARIOS=env_set STEPS=/env_steps TRACE=/env_trace \
	RESULTS=/env_results GENERATED=/env_generated B=/env_build PLUGIN=/env_plugin DRY_RUN=1 ANYWAY=1 LOCAL=no
run
row "$([ $code = 0 ] && ! grep -q env_ "$tmp/words" "$tmp/out" "$tmp/err" && given --preset quick && given --results results &&
	! grep -Eq 'dry-run|anyway' "$tmp/words"; echo $?)" "settings are not taken from the environment"
MAKEFLAGS='' ${MAKE:-make} -s --eval 'p:;@echo $(B) $(PREFIX) [$$GPU] [$$MODEL]' p MAKECMDGOALS=help PREFIX=/p >"$tmp/out" 2>"$tmp/err"
row "$([ "$(cat "$tmp/out")" = 'build /p [] []' ]; echo $?)" "nor passed on from there"
MAKEFLAGS='' ${MAKE:-make} -s --eval 'p:;@PRESET=full LEAVE_OUT=x $(MAKE) -s --eval "q:;@echo \$$(PRESET) \$$(LEAVE_OUT)" q' p \
	MAKECMDGOALS=help >"$tmp/out" 2>"$tmp/err"
row "$([ "$(cat "$tmp/out")" = 'full x' ]; echo $?)" "but what make runs has its settings"
unset GPU PRESET BUDGET MODEL SCENARIOS STEPS TRACE RESULTS GENERATED B PLUGIN DRY_RUN ANYWAY LOCAL

for setting in B RESULTS GENERATED PLUGIN; do
	run "$setting=a b"
	row "$(refused "attune: $setting=a b: the name of this folder may have letters"; echo $?)" "$setting with a blank: one line"
done
if echo 'int a;' | ${CC:-cc} -m32 -c -x c - -o "$tmp/x.o" 2>/dev/null; then
	run CFLAGS=-m32
	row "$(refused 'attune needs a 64-bit one'; echo $?)" "a 32-bit machine: one line"
fi
end_rows
