#!/usr/bin/env bash
# Step times of training over several hosts with slow links, overlap on and off, and compressed, beside
# what the model of bench/scaling.py makes of compute and links measured in the same run.
#
#     bench/scaling.sh [FOLDER]
#
# Hosts are network namespaces of this machine (scripts/hosts.bash: root, iproute2, Open MPI), each with
# one process of one thread.  Every measurement is repeated in turns with the others.  What was measured
# stays in FOLDER (bench-scaling), for bench/scaling.py check FOLDER to print again.
#
# $DPTRAIN_SCALING: the configurations, words of PROCESSES:LINK:MODEL:BATCH:STEPS, the batch over all
# processes, the link a RATE as tc has it, or none, perhaps with a delay: 1gbit+5ms, none+500us
# (DPTRAIN_TRANSPORT_DELAY); $DPTRAIN_SCALING_ROUNDS (3).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=scripts/hosts.bash
. "$root/scripts/hosts.bash"
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE OMP_NUM_THREADS
export DPTRAIN_RECIPE=${DPTRAIN_RECIPE-none} # what is measured is what the options say
DPTRAIN=${DPTRAIN:-$root/build/bin/dptrain}
export DPTRAIN_BACKEND_PATH=${DPTRAIN_BACKEND_PATH:-$(dirname "$DPTRAIN")/../lib/dptrain}
export OCL_ICD_VENDORS=/nonexistent # only CPU devices take part
out=$(mkdir -p "${1:-bench-scaling}" && cd "${1:-bench-scaling}" && pwd)
default="2:none:mlp:1024:16 2:1gbit:mlp:1024:12 2:1gbit:mlp:4096:8 2:100mbit:mlp:1024:6
         2:none:resnet18:64:6 2:1gbit:resnet18:64:6 2:100mbit:resnet18:32:4
         4:none:mlp:1024:16 4:1gbit:mlp:1024:12 4:100mbit:mlp:1024:6"
read -r -d '' -a configurations <<<"${DPTRAIN_SCALING:-$default}" || true
hosts_able || { echo "bench: $hosts_why" >&2; exit 1; }

# The shares of both kinds of run are the same, and so are the algorithms, measured once per share.
common=(--dataset synthetic:28x28x1:10:8192 --devices cpu:threads=1 --split equal --epochs 1000 --quiet)

# alone NAME PROCESSES MODEL BATCH STEPS: all side by side, each with its share, nothing exchanged.
alone() {
    # shellcheck disable=SC2016
    DPTRAIN_TRANSPORT=none hosts_mpi "$2" sh -c \
        'exec "$@" --log "$0.$OMPI_COMM_WORLD_RANK"' "$out/$1-alone" "$DPTRAIN" "${common[@]}" --model "$3" \
        --batch-size $(($4 / $2)) --max-steps "$5"
}

# together NAME PROCESSES MODEL BATCH STEPS HOW OPTION...
together() {
    hosts_mpi "$2" "$DPTRAIN" "${common[@]}" --model "$3" --batch-size "$4" --max-steps "$5" "${@:7}" \
        --log "$out/$1-$6"
}

hosts_up 4
for word in "${configurations[@]}"; do # what is chosen by measurement, before anything counts
    IFS=: read -r n _ model batch _ <<<"$word"
    "$DPTRAIN" "${common[@]}" --model "$model" --batch-size $((batch / n)) --max-steps 1
done
# set_link RATE[+DELAY]: of all hosts, from here on.
set_link() {
    local delay=${1#"${1%%+*}"}
    hosts_rate "${1%%+*}"
    if [ -n "$delay" ]; then export DPTRAIN_TRANSPORT_DELAY=${delay#+}; else unset DPTRAIN_TRANSPORT_DELAY; fi
}

# measure_link PROCESSES LINK: once; that without a limit tells what summing takes from the cores.
measure_link() {
    [ -e "$out/link-$1-$2.json" ] && return
    set_link "$2"
    hosts_mpi "$1" "$DPTRAIN" bench allreduce --devices cpu:threads=1 --json "$out/link-$1-$2.json" >/dev/null
}

rm -f "$out"/link-*.json
for ((round = 1; round <= ${DPTRAIN_SCALING_ROUNDS:-3}; round++)); do
    for word in "${configurations[@]}"; do
        IFS=: read -r n link model batch steps <<<"$word"
        name=$word-$round
        measure_link "$n" none
        measure_link "$n" "$link"
        set_link "$link"
        alone "$name" "$n" "$model" "$batch" "$steps"
        together "$name" "$n" "$model" "$batch" "$steps" off --overlap off
        together "$name" "$n" "$model" "$batch" "$steps" on
        together "$name" "$n" "$model" "$batch" "$steps" bf16 --compress bf16
    done
done
for model in mlp resnet18; do
    "$DPTRAIN" plan --model $model --dataset synthetic:28x28x1:10:640 --batch-size 64 \
        --devices cpu:threads=1 >"$out/$model.plan"
done
python3 "$root/bench/scaling.py" check "$out" # no exec: the hosts are still to be removed
