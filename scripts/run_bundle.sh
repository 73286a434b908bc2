#!/usr/bin/env bash
# Runs tests that bundle_tests.py has packed, one after the other.  A line for each: what came of it,
# its name, how long it took.  The last line is "N passed, N failed, N skipped"; the exit status is 0
# if some passed and none failed.
#
#     run.sh [OPTION]... [NAME]...      those whose names contain one of these; else all
#
#     --require LIST    a missing device of these backends, as cuda,opencl, is a failure; else it skips
#     --limit SECONDS   for each test, where its own limit is longer
#     --total SECONDS   begins no test behind that, and cuts the one that is running: both are failures
#     --logs FOLDER     what tests print (default: logs/, beside this script)
#     --list            only the names
set -uo pipefail
kit=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit 1
most=0 total=0 logs=$kit/logs only_list=false
names=()

usage() {
    echo "run.sh: $1; see --help" >&2
    exit 2
}

# number WORDS VALUE: it is one of seconds.
number() {
    [[ $2 =~ ^[1-9][0-9]{0,6}$ ]] || usage "$1 takes seconds, not '$2'"
}

while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --list) only_list=true ;;
    --require | --limit | --total | --logs)
        [ $# -gt 1 ] || usage "$1 takes a value"
        case $1 in
        --require) export DPTRAIN_TEST_REQUIRE=$2 ;;
        --limit) number "$1" "$2"; most=$2 ;;
        --total) number "$1" "$2"; total=$2 ;;
        --logs) logs=$2 ;;
        esac
        shift ;;
    -*) usage "unknown option $1" ;;
    *) names+=("$1") ;;
    esac
    shift
done

# chosen NAME: whether it is to be run.
chosen() {
    local part
    [ ${#names[@]} -eq 0 ] && return
    for part in "${names[@]}"; do
        [[ $1 == *"$part"* ]] && return
    done
    return 1
}

# seconds_left LIMIT: of this limit, of the one for every test, and of the total, what is least.
seconds_left() {
    local least=$1
    [ "$most" -gt 0 ] && [ "$most" -lt "$least" ] && least=$most
    [ "$total" -gt 0 ] && [ $((total - SECONDS)) -lt "$least" ] && least=$((total - SECONDS))
    echo "$least"
}

# run NAME LOG: prints what came of it: passed, skipped, FAILED and why.
run() (
    limit=600 scratch=$kit skipped=-1 wanted='' waived='' command=(false)
    # shellcheck source=/dev/null
    . "$kit/tests/$1"
    export LD_LIBRARY_PATH=$kit/libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    left=$(seconds_left "$limit")
    if [ "$left" -le 0 ]; then
        echo "FAILED: no time was left" | tee "$2"
        return
    fi
    mkdir -p "$scratch" && cd "$scratch" || return
    timeout --kill-after=5 "$left" "${command[@]}" >"$2" 2>&1 </dev/null
    status=$?
    if [ -n "$waived" ] && grep -qzE -e "$waived" "$2"; then
        echo skipped
    elif [ -n "$wanted" ]; then
        grep -qzE -e "$wanted" "$2" && echo passed || echo "FAILED: it does not print what it should"
    else
        case $status in
        0) echo passed ;;
        "$skipped") echo skipped ;;
        124 | 137) echo "FAILED: no end within $left s" ;;
        *) echo "FAILED: status $status" ;;
        esac
    fi
)

mapfile -t all <"$kit/list"
mkdir -p "$logs" || exit 1
logs=$(cd "$logs" && pwd) || exit 1
passed=0 failed=0 skipped=0
for name in "${all[@]}"; do
    chosen "$name" || continue
    if $only_list; then
        echo "$name"
        continue
    fi
    began=$SECONDS
    result=$(run "$name" "$logs/$name.log")
    case $result in
    passed) passed=$((passed + 1)) ;;
    skipped) skipped=$((skipped + 1)) ;;
    *) failed=$((failed + 1)) ;;
    esac
    printf '%-8s %-44s %5d s%s\n' "${result%%:*}" "$name" $((SECONDS - began)) \
        "${result#"${result%%:*}"}"
    case $result in FAILED*) tail -n 20 "$logs/$name.log" | sed 's/^/    /' ;; esac
done
$only_list && exit 0
echo "$passed passed, $failed failed, $skipped skipped"
[ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
