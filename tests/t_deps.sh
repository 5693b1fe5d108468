#!/bin/sh
# t_deps.sh - the dependency installer, with a package manager that only takes notes:
# nothing is installed when all is there, lists are refreshed only when needed, and
# where nothing can be done one line names packages and command.
unset CXX HIPCC
export ROCM_PATH=/nowhere
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
n=0

row() { # CONDITION NAME
	n=$((n + 1))
	if [ "$1" = 0 ]; then
		echo "ok $n - $2"
	else
		echo "not ok $n - $2"
		sed 's/^/# /' "$tmp/err" "$tmp/log"
	fi
}

# A compiler that finds all headers but those that "$tmp/lacks" names.
cat >"$tmp/fakecc" <<SCRIPT
#!/bin/sh
! grep -qFf "$tmp/lacks"
SCRIPT
# apt-get: succeeds, and "installs", only after as many updates as "$tmp/updates" asks.
mkdir "$tmp/apt" "$tmp/dnf" "$tmp/none"
cat >"$tmp/apt/apt-get" <<SCRIPT
#!/bin/sh
echo "apt-get \$*" >>"$tmp/log"
case \$1 in
update) echo >"$tmp/updates" ;;
install) [ "\$(cat "$tmp/updates")" != needed ] || exit 100; echo nothing-lacks >"$tmp/lacks" ;;
esac
SCRIPT
printf '#!/bin/sh\necho "dnf $*" >>%s/log; echo nothing-lacks >%s/lacks\n' "$tmp" "$tmp" \
	>"$tmp/dnf/dnf"
chmod +x "$tmp/fakecc" "$tmp/apt/apt-get" "$tmp/dnf/dnf"
for tool in sh grep sed cut tr env cat gnuplot prove sqlite3 c++; do
	for d in apt dnf none; do
		ln -s "$(command -v $tool)" "$tmp/$d/$tool"
	done
done
as() { # UID: what id -u says
	for d in apt dnf none; do
		printf '#!/bin/sh\necho %s\n' "$1" >"$tmp/$d/id"
		chmod +x "$tmp/$d/id"
	done
}

deps() { # MANAGER LACKS UPDATES MODE GROUP...
	d=$1
	echo "$2" >"$tmp/lacks"
	echo "$3" >"$tmp/updates"
	shift 3
	: >"$tmp/log"
	PATH=$tmp/$d CC=$tmp/fakecc sh harness/deps.sh "$@" >"$tmp/out" 2>"$tmp/err"
	code=$?
}

lines() {
	wc -l <"$1" | tr -d ' '
}

as 0
deps apt nothing-lacks '' install library tool test
row "$([ $code = 0 ] && [ ! -s "$tmp/log" ] && [ ! -s "$tmp/err" ]; echo $?)" "all there: silent"

deps apt jansson.h '' check library tool
row "$([ $code = 1 ] && [ ! -s "$tmp/log" ] && [ "$(lines "$tmp/err")" = 1 ] &&
	grep -q 'jansson.h; to install: apt-get install .* libjansson-dev$' "$tmp/err"; echo $?)" \
	"check names what is missing and does nothing"

deps apt jansson.h '' check library
row $code "a group that was not asked for may be missing"

deps apt sqlite3.h '' install library tool
row "$([ $code = 0 ] && [ "$(lines "$tmp/log")" = 1 ] &&
	grep -q '^apt-get install .* libsqlite3-dev$' "$tmp/log"; echo $?)" "one install, no update"

deps apt pthreadpool.h needed install library tool
row "$([ $code = 0 ] && [ "$(cut -d ' ' -f 2 "$tmp/log" | tr '\n' ' ')" = 'install update install ' ]
	echo $?)" "lists that are missing are fetched, then once more"

deps apt nothing-lacks '' check library tool amd
row "$([ $code = 1 ] && [ "$(lines "$tmp/err")" = 1 ] &&
	grep -q 'missing clang-22 lld-22 llvm-objdump-22; .* clang-22 lld-22 llvm-22$' "$tmp/err"; echo $?)" \
	"a compiler for AMD's GPUs, where that is asked for"
printf '#!/bin/sh\n[ "$3" = --offload-arch=gfx942 ]\n' >"$tmp/apt/clang-20"
chmod +x "$tmp/apt/clang-20"
deps apt nothing-lacks '' check amd
row $code "any that knows the GPU will do"

deps dnf xxhash.h '' install tool
row "$([ $code = 0 ] && grep -q '^dnf install -y xxhash-devel$' "$tmp/log"; echo $?)" "dnf's names"

deps none cmocka.h '' install test
row "$([ $code = 1 ] && [ "$(lines "$tmp/err")" = 1 ] && grep -q libcmocka-dev "$tmp/err"; echo $?)" \
	"no package manager: one line"

as 1000
deps apt cmocka.h '' install test
row "$([ $code = 1 ] && [ ! -s "$tmp/log" ] && [ "$(lines "$tmp/err")" = 1 ] &&
	grep -q 'sudo apt-get install .* libcmocka-dev$' "$tmp/err"; echo $?)" \
	"neither root nor sudo: one line with the command"

printf '#!/bin/sh\n[ "$1" = -n ] && shift; exec "$@"\n' >"$tmp/apt/sudo"
chmod +x "$tmp/apt/sudo"
ln -s /bin/true "$tmp/apt/true"
deps apt cmocka.h '' install test
row "$([ $code = 0 ] && grep -q 'install .* libcmocka-dev$' "$tmp/log"; echo $?)" \
	"sudo without a password"

sh harness/deps.sh install >"$tmp/out" 2>"$tmp/err"
code=$?
row "$([ $code = 2 ] && [ "$(lines "$tmp/err")" = 1 ]; echo $?)" "no group: usage"
echo "1..$n"
