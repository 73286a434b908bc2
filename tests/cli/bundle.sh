#!/usr/bin/env bash
# scripts/bundle_tests.py: what it packs runs without the build and the source, and its runner tells
# what came of each test.
. "$SRC/tests/cli/kit.bash"
need_python
for program in ctest strip ldd git; do
    command -v $program >/dev/null 2>&1 || { echo "skipped: there is no $program"; exit 77; }
done
git -C "$SRC" ls-files --error-unmatch README.md >/dev/null 2>&1 ||
    { echo "skipped: the source is no git repository"; exit 77; }

build=$(cd "$(dirname "$DPTRAIN")/.." && pwd)
rm -rf packed moved logs
bundle() { python3 "$SRC/scripts/bundle_tests.py" "$@" >bundle.out 2>bundle.err; }
# run ARGUMENT...: the runner's exit status is its own.
run() { moved/run.sh --logs logs "$@" >run.out 2>&1; }
last() { [ "$(tail -n 1 run.out)" = "$1" ]; }

# One that reads the source, one with a program and plug-ins, one that passes by what it prints, and
# one whose device is nowhere.
check "tests are packed" bundle packed --build "$build" \
    -R '^(unit_schedule|cli_usage|conformance_required)$'
check "it tells how many" grep -q '^3 tests, ' bundle.out
check "nothing in it names the build" test -z "$(grep -rlF "$build" packed/tests packed/run.sh)"
check "nor the source" test -z "$(grep -rlF "$SRC" packed/tests packed/run.sh)"
mv packed moved
check "they pass elsewhere" run
check "all of them do" last "3 passed, 0 failed, 0 skipped"
check "of names that are given, one" run schedule
check "and no other" last "1 passed, 0 failed, 0 skipped"
check "names are listed" test "$(moved/run.sh --list usage)" = cli_usage

# add NAME LINE...: a test of our own.
add() {
    local name=$1
    shift
    printf '%s\n' "$@" >"moved/tests/$name"
    echo "$name" >>moved/list
}
add own_failing 'limit=60' 'command=(sh -c "echo what it says; exit 3")'
add own_hanging 'limit=60' 'command=(sleep 60)'
add own_missing 'limit=60' 'skipped=77' 'command=(sh -c "exit 77")'
add own_silent 'limit=60' "wanted='a word'" 'command=(true)'
add own_waived 'limit=60' "waived='cannot run'" 'command=(sh -c "echo cannot run it; exit 1")'

check "a failure is one" eval '! run own_failing'
check "with its status" grep -q '^FAILED *own_failing .*: status 3$' run.out
check "and what it printed" grep -q '^    what it says$' run.out
check "what hangs is ended" eval '! run --limit 1 own_hanging'
check "and said to hang" grep -q 'own_hanging .*: no end within 1 s$' run.out
check "what skips alone is no success" eval '! run own_missing own_waived'
check "but skipped" last "0 passed, 0 failed, 2 skipped"
check "what does not print what it should has failed" eval '! run own_silent'
check "the total cuts, and begins nothing behind it" \
    eval '! run --total 1 own_hanging own_waived'
check "which is told" last "0 passed, 2 failed, 0 skipped"

refuse_bundle() {
    check "$1" eval "! bundle ${*:3}"
    check "$1, in words" grep -qE "^bundle_tests.py: .*$2" bundle.err
}
refuse_bundle "a folder that is there" "is there already" moved --build "'$build'"
refuse_bundle "no build" "no build with tests" other --build .
refuse_bundle "no such test" "no test is selected" other --build "'$build'" -R nosuchtest
check "and makes nothing" test ! -e other
check "an unknown option of the runner" eval '! run --nosuch'
check "is told" grep -q 'unknown option --nosuch; see --help' run.out
check "so is a limit that is none" eval '! run --limit none'
finish
