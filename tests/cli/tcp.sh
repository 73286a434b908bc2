#!/usr/bin/env bash
# Several processes through TCP, without MPI: the same training as in one, processes that die or stand still,
# a network that is cut, and a clear line for whatever is given wrong.
. "$SRC/tests/cli/kit.bash"
. "$SRC/scripts/hosts.bash"
[ -e "$(dirname "$DPTRAIN")/../lib/dptrain/transports/libdptrain-tcp.so" ] || absent tcp "built without it"

port=$((20000 + $$ % 10000))
(umask 077 && head -c 32 /dev/urandom >secret)
export DPTRAIN_SECRET_FILE=$PWD/secret DPTRAIN_JOIN_TIMEOUT=60

# start N ARGUMENT...: N processes; their numbers in ${ids[@]}, output in out.RANK and err.RANK.
start() {
    local n=$1 rank
    shift
    port=$((port + 1))
    ids=()
    for ((rank = 0; rank < n; rank++)); do
        DPTRAIN_ADDRESS=127.0.0.1:$port DPTRAIN_PROCESSES=$n DPTRAIN_RANK=$rank timeout 120 \
            "$DPTRAIN" "$@" >"out.$rank" 2>"err.$rank" </dev/null &
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

# signal_rank SIGNAL RANK: to the training, which timeout has started.
signal_rank() {
    # shellcheck disable=SC2046
    kill -"$1" $(cat "/proc/${ids[$2]}/task/${ids[$2]}/children")
}

# await_steps COUNT LOG
await_steps() {
    local i
    for ((i = 0; i < 1200; i++)); do
        if [ "$(cat "$2" 2>/dev/null | grep -c '"event":"step"')" -ge "$1" ]; then return; fi
        sleep 0.05
    done
}

# ---- The same training ---------------------------------------------------------------------------

task=(--dataset synthetic:28x28x1:10:1024 --model lenet --batch-size 32 --epochs 12 --deterministic
    --devices cpu:threads=1 --optimizer adamw --lr 0.001)
train "${task[@]}" --checkpoint whole --log whole.jsonl
start 3 "${task[@]}" --checkpoint three --log three.jsonl
ends 0 0 0
check "other weights" cmp whole/model.safetensors three/model.safetensors
check "one process prints" [ "$(cat out.? | grep -c '^model ')" -eq 1 ]
check "the header: $(cat out.0)" grep -q '^processes 3: if one dies, the training goes on without it$' out.0
check "the transport: $(cat out.0)" grep -q '^ *messages between them go through tcp$' out.0
check "the log" grep -q '"event":"run".*"transport":"tcp","goes_on_without_dead_processes":true' three.jsonl
start 2 bench allreduce --devices cpu:threads=1
ends 0 0
check "a bench: $(cat out.0)" grep -q 'of 2 processes through tcp' out.0

# ---- Processes that die --------------------------------------------------------------------------

course() { grep -o '"event":"step","step":[0-9]*,"epoch":[0-9]*' "$1"; }

for victim in 1 0; do
    rm -rf part part.jsonl
    start 3 "${task[@]}" --checkpoint part --log part.jsonl
    await_steps 12 part.jsonl
    signal_rank KILL $victim
    statuses=(0 0 0)
    statuses[victim]=137
    ends "${statuses[@]}"
    check "other weights without $victim" cmp whole/model.safetensors part/model.safetensors
    check "the log has each step once" cmp <(course whole.jsonl) <(course part.jsonl)
    check "who has died" grep -q "process $victim (.*) has died" part.jsonl
done

# A process that stands still is left behind.  When it goes on, it says so and writes nothing.
export DPTRAIN_PROCESS_TIMEOUT=2
rm -rf part part.jsonl
start 3 "${task[@]}" --checkpoint part --log part.jsonl
await_steps 12 part.jsonl
signal_rank STOP 1
wait "${ids[0]}"
signal_rank CONT 1
ends 0 1 0
check "other weights" cmp whole/model.safetensors part/model.safetensors
check "it is told: $(cat err.1)" grep -q '^dptrain: process 1 (.*): the other processes have gone on without this one' err.1

# The first process, on a disk of its own: processes of one disk find its files locked, and end.
rm -rf part disk.?
port=$((port + 1))
ids=()
for rank in 0 1 2; do
    mkdir "disk.$rank"
    (cd "disk.$rank" && DPTRAIN_ADDRESS=127.0.0.1:$port DPTRAIN_PROCESSES=3 DPTRAIN_RANK=$rank exec timeout 120 \
        "$DPTRAIN" "${task[@]}" --log log.jsonl --checkpoint part >"../out.$rank" 2>"../err.$rank" </dev/null) &
    ids+=($!)
done
await_steps 12 disk.0/log.jsonl
signal_rank STOP 0
wait "${ids[1]}"
cp -r disk.0 disk.9
signal_rank CONT 0
ends 1 0 0
check "other weights" cmp whole/model.safetensors disk.1/part/model.safetensors
check "the first process writes: $(diff -rq -x log.jsonl disk.0 disk.9)" diff -rq -x log.jsonl disk.0 disk.9
# It may have been stopped between the agreement on a step and the lines of this step.
check "its log goes on: $(diff disk.9/log.jsonl disk.0/log.jsonl | cut -c1-200)" python3 - <<'PYTHON'
before, after = (open(f"disk.{i}/log.jsonl").read() for i in (9, 0))
more = after[len(before):].splitlines()
assert after.startswith(before) and len(more) <= 4 and sum('"event":"step"' in line for line in more) <= 1
PYTHON
check "it is told: $(cat err.0)" grep -q '^dptrain: process 0 (.*): the other processes have gone on' err.0
check "in one line" [ "$(grep -c 'gone on without' err.0)" -eq 1 ]

# Of two processes, the second one may not go on.
rm -rf part
start 2 "${task[@]}" --epochs 100000 --checkpoint part
await part/model.safetensors
signal_rank STOP 0
wait "${ids[1]}"
got=$?
check "the second of two goes on: $got" [ "$got" -eq 1 ]
check "it is told: $(cat err.1)" grep -q '^dptrain: process 1 (.*): 1 of 2 processes hear each other, which is too few' err.1
signal_rank KILL 0
wait
unset DPTRAIN_PROCESS_TIMEOUT

# ---- Bad input -----------------------------------------------------------------------------------

few=(--dataset synthetic:8x8x1:4:64 --model linear --devices cpu:threads=1 --max-steps 2)
export DPTRAIN_ADDRESS=127.0.0.1:$port DPTRAIN_PROCESSES=2 DPTRAIN_RANK=1
DPTRAIN_ADDRESS=nonsense refuse 2 'DPTRAIN_ADDRESS is "nonsense": give HOST:PORT' "${few[@]}"
DPTRAIN_ADDRESS=10.9.9.9:99 refuse 2 'in no network of DPTRAIN_NETWORKS' "${few[@]}"
DPTRAIN_PROCESSES=many refuse 2 'DPTRAIN_PROCESSES is "many": give the number' "${few[@]}"
DPTRAIN_ADDRESS='' refuse 2 'DPTRAIN_PROCESSES is set and DPTRAIN_ADDRESS is not: export' "${few[@]}"
DPTRAIN_PROCESSES=1 refuse 2 'DPTRAIN_RANK is "1", and DPTRAIN_PROCESSES is 1' "${few[@]}"
DPTRAIN_RANK=2 refuse 2 'DPTRAIN_RANK is "2": give a number from 0 to 1' "${few[@]}"
DPTRAIN_SECRET_FILE='' refuse 2 'DPTRAIN_SECRET_FILE is not set' "${few[@]}"
DPTRAIN_SECRET_FILE=nowhere refuse 2 'cannot open nowhere: .*; make one with' "${few[@]}"
head -c 32 /dev/zero >open
chmod 644 open
DPTRAIN_SECRET_FILE=open refuse 2 'others may read or change open: run `chmod 600`' "${few[@]}"
DPTRAIN_PROCESS_TIMEOUT=0 refuse 2 'DPTRAIN_PROCESS_TIMEOUT is "0": give a number of seconds' "${few[@]}"
DPTRAIN_JOIN_TIMEOUT=1 refuse 1 'process 0 is not reached at 127.0.0.1:[0-9]+ within 1 s .*: Connection refused' "${few[@]}"
DPTRAIN_RANK=0 DPTRAIN_JOIN_TIMEOUT=1 refuse 1 '1 of 2 processes have not joined within 1 s' "${few[@]}"
OMPI_COMM_WORLD_SIZE=2 refuse 2 'are both set: unset one of them, or say which' "${few[@]}"
DPTRAIN_TRANSPORT=none "$DPTRAIN" "${few[@]}" >alone.out 2>alone.err
check "DPTRAIN_TRANSPORT=none: $(cat alone.err)" grep -q '^trained 2 steps' alone.out
unset DPTRAIN_ADDRESS DPTRAIN_PROCESSES DPTRAIN_RANK

# A rank that is there twice: the second is refused, and the others go on waiting.
port=$((port + 1))
(DPTRAIN_ADDRESS=127.0.0.1:$port DPTRAIN_PROCESSES=3 DPTRAIN_RANK=0 "$DPTRAIN" "${few[@]}" >out.0 2>err.0) &
first=$!
(DPTRAIN_ADDRESS=127.0.0.1:$port DPTRAIN_PROCESSES=3 DPTRAIN_RANK=1 "$DPTRAIN" "${few[@]}" >out.1 2>err.1) &
second=$!
for ((i = 0; i < 100; i++)); do
    if grep -q 'waits for process 2$' err.0; then break; fi
    sleep 0.1
done
DPTRAIN_ADDRESS=127.0.0.1:$port DPTRAIN_PROCESSES=3 DPTRAIN_RANK=1 refuse 2 \
    'DPTRAIN_RANK is 1 here, and another process of that rank has joined already' "${few[@]}"
DPTRAIN_ADDRESS=127.0.0.1:$port DPTRAIN_PROCESSES=3 DPTRAIN_RANK=2 DPTRAIN_PROCESS_TIMEOUT=7 refuse 2 \
    'DPTRAIN_PROCESS_TIMEOUT is 7 here and 20 in the process at' "${few[@]}"
DPTRAIN_ADDRESS=127.0.0.1:$port DPTRAIN_PROCESSES=3 DPTRAIN_RANK=2 "$DPTRAIN" "${few[@]}" >out.2 2>err.2
ids=($first $second)
check "the third: $(cat err.2)" [ ! -s err.2 ]
ends 0 0
check "it is told: $(cat err.0)" grep -q 'is refused: it says that it is process 1, which has joined already' err.0

# ---- A network that is cut -----------------------------------------------------------------------

if ! hosts_able; then
    echo "without a network that is cut: $hosts_why"
    finish
fi
# A port from which Linux chooses those of connections: nobody listens, and a process would reach itself.
if unshare -n true 2>/dev/null; then
    unshare -n sh -c 'ip link set lo up; echo 40000 40007 >/proc/sys/net/ipv4/ip_local_port_range; exec "$@"' sh \
        env DPTRAIN_ADDRESS=127.0.0.1:40002 DPTRAIN_PROCESSES=2 DPTRAIN_RANK=1 DPTRAIN_JOIN_TIMEOUT=6 \
        "$DPTRAIN" "${few[@]}" >self.out 2>self.err
    check "it reaches itself: $(cat self.err)" grep -q 'process 0 is not reached .*: Connection refused' self.err
    check "it tells that it waits: $(cat self.err)" grep -q 'process 1 waits for process 0 at' self.err
fi

hosts_up 4
# Link-local addresses of IPv6.  Each host names its own interface.
for rank in 0 1 2; do
    ip -n "$hosts_name-$((rank + 1))" addr add fe80::a$rank/64 dev port nodad 2>/dev/null || continue
done
if ip -n "$hosts_name-3" addr show dev port | grep -q fe80::a2/64; then
    ids=()
    for rank in 0 1 2; do
        hosts_on $((rank + 1)) env DPTRAIN_ADDRESS="[fe80::a0%port]:29501" DPTRAIN_NETWORKS=fe80::/10 \
            DPTRAIN_PROCESSES=3 DPTRAIN_RANK=$rank timeout 120 "$DPTRAIN" "${few[@]}" \
            >"out.$rank" 2>"err.$rank" </dev/null &
        ids+=($!)
    done
    ends 0 0 0
fi

rm -rf cut cut.jsonl
export DPTRAIN_PROCESS_TIMEOUT=2 DPTRAIN_NETWORKS=10.77.0.0/24
ids=()
for rank in 0 1 2 3; do
    hosts_on $((rank + 1)) env DPTRAIN_ADDRESS=10.77.0.1:29500 DPTRAIN_PROCESSES=4 DPTRAIN_RANK=$rank \
        timeout 120 "$DPTRAIN" "${task[@]}" --epochs 100000 --max-time 20 --log cut.jsonl --checkpoint cut \
        >"out.$rank" 2>"err.$rank" </dev/null &
    ids+=($!)
done
await_steps 12 cut.jsonl
# The links of hosts 3 and 4 go to a switch of their own.
ip -n "$hosts_name-switch" link add other type bridge
ip -n "$hosts_name-switch" link set other up
ip -n "$hosts_name-switch" link set port3 master other
ip -n "$hosts_name-switch" link set port4 master other
ends 0 0 1 1
check "two go on: $(cat err.0)" grep -q '2 processes go on after step' err.0
for rank in 2 3; do
    check "process $rank says why it ends: $(cat err.$rank)" \
        grep -q "^dptrain: process $rank (.*): 2 of 4 processes hear each other, which is too few" err.$rank
done
finish
