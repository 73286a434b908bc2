#!/usr/bin/env bash
# --shard over several processes through TCP: processes that die, whose part of the training state the others
# have, and a process that comes.
. "$SRC/tests/cli/kit.bash"
[ -e "$(dirname "$DPTRAIN")/../lib/dptrain/transports/libdptrain-tcp.so" ] || absent tcp "built without it"

port=$((34000 + $$ % 2000))
(umask 077 && head -c 32 /dev/urandom >secret)
export DPTRAIN_SECRET_FILE=$PWD/secret DPTRAIN_JOIN_TIMEOUT=60

# start N ARGUMENT...: N processes; their numbers in ${ids[@]}, output in out.RANK and err.RANK.
start() {
    local n=$1 rank
    shift
    port=$((port + 1))
    rm -rf part part.jsonl
    ids=()
    for ((rank = 0; rank < n; rank++)); do
        DPTRAIN_ADDRESS=127.0.0.1:$port DPTRAIN_PROCESSES=$n DPTRAIN_RANK=$rank timeout 120 \
            "$DPTRAIN" "${task[@]}" --checkpoint part --log part.jsonl "$@" >"out.$rank" 2>"err.$rank" </dev/null &
        ids+=($!)
    done
}

# ends STATUS...: waits for the processes, and checks their exit statuses.
ends() {
    local rank=0 want got
    for want in "$@"; do
        wait "${ids[$rank]}"
        got=$?
        check "process $rank: exit status $got, not $want: $(cat err.$rank)" [ "$got" -eq "$want" ]
        rank=$((rank + 1))
    done
}

# kill_rank RANK: the training, which timeout has started.
kill_rank() {
    # shellcheck disable=SC2046
    kill -KILL $(cat "/proc/${ids[$1]}/task/${ids[$1]}/children")
}

# await_steps COUNT
await_steps() {
    local i n
    for ((i = 0; i < 1200; i++)); do
        n=$(grep -sc '"event":"step"' part.jsonl)
        if [ "${n:-0}" -ge "$1" ]; then return; fi
        sleep 0.05
    done
}

course() { grep -o '"event":"step","step":[0-9]*,"epoch":[0-9]*' "$1"; }

# same WHAT: the weights and the steps are those of one process alone.
same() {
    check "$1: other weights" cmp whole/model.safetensors part/model.safetensors
    check "$1: the log has each step once" cmp <(course whole.jsonl) <(course part.jsonl)
}

task=(--dataset synthetic:28x28x1:10:1024 --model lenet --batch-size 32 --epochs 12 --deterministic
    --devices cpu:threads=1 --optimizer adamw --lr 0.001)
train "${task[@]}" --checkpoint whole --log whole.jsonl

for shard in optimizer gradients parameters; do
    start 3 --shard $shard
    ends 0 0 0
    same "three processes, $shard"
    check "parts are told: $(cat out.0)" [ "$(grep -c "of the optimizer's state$" out.0)" -eq 3 ]
done

# Any process dies, and then another one: what is left is one process, which holds all of the state.
shards=(optimizer gradients parameters)
for victim in 2 1 0; do
    start 3 --shard "${shards[victim]}"
    await_steps 12
    kill_rank $victim
    await_line 'has died' part.jsonl
    statuses=(0 0 0)
    statuses[victim]=137
    if [ $victim -eq 1 ]; then
        await_steps 40
        kill_rank 2
        statuses[2]=137
    fi
    ends "${statuses[@]}"
    same "without process $victim"
    check "who has died" grep -q "process $victim (.*) has died" part.jsonl
done

# A process comes, and gets a part.
export DPTRAIN_JOINERS=2
start 2 --shard parameters
await_steps 10
timeout 120 "$DPTRAIN" join "127.0.0.1:$port" --devices cpu:threads=1 >out.third 2>err.third </dev/null &
id=$!
ends 0 0
wait $id
got=$?
check "the process that comes: exit status $got: $(cat err.third)" [ "$got" -eq 0 ]
same "one comes"
check "the log" grep -q '"event":"device_joined".*"error":"process 2 (.*) has joined"' part.jsonl
unset DPTRAIN_JOINERS

finish
