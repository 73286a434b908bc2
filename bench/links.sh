#!/usr/bin/env bash
# Step times of two hosts over a link that is held to a rate, with the exchange of gradients behind
# backward and without, against the larger of what computing and the exchange take by themselves.
#
#     bench/links.sh [MODEL:BATCH:STEPS[:OPTION...]]... -- [RATE]...
#
# needs root (network namespaces), Open MPI, python3, and a build folder beside this one ($BUILD).
# A row for each model and rate: medians over the steps behind the second; runs with and without
# overlap take turns.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-$here/../build}
export DPTRAIN_BACKEND_PATH=${DPTRAIN_BACKEND_PATH:-$build/lib/dptrain}
# shellcheck source=scripts/hosts.bash
. "$here/../scripts/hosts.bash"
hosts_able || {
    echo "links.sh: $hosts_why" >&2
    exit 1
}

tasks=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    tasks+=("$1")
    shift
done
[ $# -eq 0 ] || shift
rates=("$@")
[ ${#tasks[@]} -gt 0 ] || tasks=(resnet18:64:8 mlp:1024:12)
[ ${#rates[@]} -gt 0 ] || rates=(1gbit 100mbit)

turns=${TURNS:-2}
folder=$(mktemp -d)
hosts_up 2
trap 'hosts_down; rm -rf "$folder"' EXIT

# run MODEL BATCH STEPS OVERLAP LOG [OPTION...]
run() {
    local model=$1 batch=$2 steps=$3 overlap=$4 log=$5
    shift 5
    if ! hosts_mpi 2 "$build/bin/dptrain" --devices cpu:threads=1 --split equal --quiet --model "$model" \
        --dataset "synthetic:28x28x1:10:$((batch * 4))" --batch-size "$batch" --max-steps "$steps" \
        --overlap "$overlap" --log "$log" "$@" >"$folder/out" 2>&1 </dev/null; then
        cat "$folder/out" >&2
        exit 1
    fi
}

echo "| model | batch | link | computing, s | exchange, s | off, s | on, s | on / larger | off / larger |"
echo "|---|--:|---|--:|--:|--:|--:|--:|--:|"
for task in "${tasks[@]}"; do
    IFS=: read -r model batch steps options <<<"$task"
    for rate in "${rates[@]}"; do
        hosts_rate "$rate"
        for turn in $(seq "$turns"); do
            for overlap in off on; do
                # shellcheck disable=SC2086 # words
                run "$model" "$batch" "$steps" $overlap "$folder/$overlap-$turn" ${options//:/ }
            done
        done
        python3 - "$folder" "$model" "$batch" "$rate" "$turns" <<'PYTHON'
import json, statistics, sys

folder, model, batch, rate, turns = sys.argv[1:]


def steps(overlap):
    found = []
    for turn in range(1, int(turns) + 1):
        with open(f"{folder}/{overlap}-{turn}") as log:
            events = [json.loads(line) for line in log]
        found += [e for e in events if e["event"] == "step"][2:]
    return found


off, on = steps("off"), steps("on")
exchange = statistics.median(max(e["exchange_seconds"]) for e in off)
computing = statistics.median(e["seconds"] - max(e["exchange_seconds"]) for e in off)
larger = max(computing, exchange)
seconds = [statistics.median(e["seconds"] for e in s) for s in (off, on)]
print(f"| {model} | {batch} | {rate} | {computing:.3f} | {exchange:.3f} | {seconds[0]:.3f} | "
      f"{seconds[1]:.3f} | {seconds[1] / larger:.2f} | {seconds[0] / larger:.2f} |")
PYTHON
    done
done
