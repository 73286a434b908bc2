#!/usr/bin/env bash
# Local steps over a slow line beside the same without a limit: samples a second and bytes a step of two
# hosts of one thread each, and of the synchronous training over the same line.
#
#     bench/local_steps.sh [FOLDER] [OPTION...]
#
# Hosts are network namespaces of this machine (scripts/hosts.bash: root, iproute2, Open MPI).  The runs
# are repeated in turns.  What was measured stays in FOLDER (bench-local-steps), for bench/local_steps.py
# FOLDER to print again.  OPTIONs are those of dptrain for the runs with local steps, in place of
# --compress int8 --outer-delay 2.  With the defaults it takes about 12 minutes where a step takes 1.2
# seconds.
#
# $DPTRAIN_LOCAL: MODEL:BATCH:H:ROUNDS:TURNS:SYNCHRONOUS (resnet18:128:50:2:2:6): the batch over both
# hosts, the steps of a round, the rounds of a run, how often each run is repeated, and the steps of the
# synchronous run.  The first round of a run does not count if there are more.  $DPTRAIN_LOCAL_LINE:
# RATE+DELAY (100mbit+20ms), as bench/scaling.sh has it.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=scripts/hosts.bash
. "$root/scripts/hosts.bash"
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE OMP_NUM_THREADS
export DPTRAIN_RECIPE=${DPTRAIN_RECIPE-none} # what is measured is what the options say
DPTRAIN=${DPTRAIN:-$root/build/bin/dptrain}
export DPTRAIN_BACKEND_PATH=${DPTRAIN_BACKEND_PATH:-$(dirname "$DPTRAIN")/../lib/dptrain}
export OCL_ICD_VENDORS=/nonexistent # only CPU devices take part
out=$(mkdir -p "${1:-bench-local-steps}" && cd "${1:-bench-local-steps}" && pwd)
shift || true
options=("$@")
IFS=: read -r model batch h rounds turns synchronous <<<"${DPTRAIN_LOCAL:-resnet18:128:50:2:2:6}"
[ $# -gt 0 ] || options=(--compress int8 --outer-delay 2)
line=${DPTRAIN_LOCAL_LINE:-100mbit+20ms}
hosts_able || { echo "bench: $hosts_why" >&2; exit 1; }

# An epoch is longer than a run, so that no round ends early and nothing is evaluated.
steps=$((h * rounds))
common=(--dataset "synthetic:28x28x1:10:$((batch * (steps + synchronous + 1)))" --model "$model" --batch-size "$batch"
    --devices cpu:threads=1 --split equal --momentum 0.9 --lr 0.02 --quiet)

# sent: the bytes that both hosts have sent so far.
sent() {
    local i sum=0
    for i in 1 2; do
        sum=$((sum + $(ip netns exec "$hosts_name-$i" cat /sys/class/net/port/statistics/tx_bytes)))
    done
    echo "$sum"
}

# watch LOG: writes "STEPS BYTES" ten times a second, from the first step on.
watch() {
    local n
    while sleep 0.1; do
        n=$(grep -c '"event":"step"' "$1" 2>/dev/null || true)
        echo "${n:-0} $(sent)"
    done >"$1.sent"
}

# run NAME LINE STEPS OPTION...
run() {
    local log="$out/$1.jsonl" delay=${2#"${2%%+*}"} watcher
    rm -f "$log"
    hosts_rate "${2%%+*}"
    if [ -n "$delay" ]; then export DPTRAIN_TRANSPORT_DELAY=${delay#+}; else unset DPTRAIN_TRANSPORT_DELAY; fi
    watch "$log" &
    watcher=$!
    hosts_mpi 2 "$DPTRAIN" "${common[@]}" --max-steps "$3" "${@:4}" --log "$log"
    sleep 0.3
    kill "$watcher"
    wait "$watcher" 2>/dev/null || true
}

hosts_up 2
"$DPTRAIN" "${common[@]}" --batch-size $((batch / 2)) --max-steps 1 # algorithms, chosen before anything counts
rm -f "$out"/*.jsonl "$out"/*.sent
for ((turn = 1; turn <= turns; turn++)); do
    run "local-$turn" "$line" "$steps" --local-steps "$h" "${options[@]}"
    run "free-$turn" none "$steps" --local-steps "$h" "${options[@]}"
done
run synchronous-1 "$line" "$synchronous"
echo "$model, batch $batch over two hosts, rounds of $h steps ${options[*]}, line $line" >"$out/what"
python3 "$root/bench/local_steps.py" "$out" "$h" # no exec: the hosts are still to be removed
