#!/usr/bin/env bash
# Processes that come to a training that runs (dptrain join): the same weights, a process that replaces one
# that has died, and a clear line for whatever is wrong, while the others go on.
. "$SRC/tests/cli/kit.bash"
[ -e "$(dirname "$DPTRAIN")/../lib/dptrain/transports/libdptrain-tcp.so" ] || absent tcp "built without it"

port=$((30000 + $$ % 2000))
(umask 077 && head -c 32 /dev/urandom >secret && head -c 32 /dev/urandom >other)
export DPTRAIN_SECRET_FILE=$PWD/secret DPTRAIN_JOIN_TIMEOUT=60

# start N ARGUMENT...: N processes of a job at the next port, which lets four others in.
start() {
    local n=$1 rank
    shift
    port=$((port + 1))
    rm -rf part part.jsonl
    ids=()
    for ((rank = 0; rank < n; rank++)); do
        DPTRAIN_ADDRESS=127.0.0.1:$port DPTRAIN_PROCESSES=$n DPTRAIN_RANK=$rank DPTRAIN_JOINERS=${joiners:-4} \
            timeout 120 "$DPTRAIN" "${task[@]}" --checkpoint part --log part.jsonl "$@" \
            >"out.$rank" 2>"err.$rank" </dev/null &
        ids+=($!)
    done
}

# come NAME ARGUMENT...: one more process, in the background; its number in $id.
come() {
    local name=$1
    shift
    timeout 120 "$DPTRAIN" join "127.0.0.1:$port" --devices cpu:threads=1 "$@" >"out.$name" 2>"err.$name" </dev/null &
    id=$!
}

# ends STATUS NAME ID
ends() {
    local got
    wait "$3"
    got=$?
    check "process $2: exit status $got, not $1: $(cat "err.$2")" [ "$got" -eq "$1" ]
}

# signal_to SIGNAL ID: to the training, which timeout has started.
signal_to() {
    # shellcheck disable=SC2046
    kill -"$1" $(cat "/proc/$2/task/$2/children")
}

# await_steps COUNT
await_steps() {
    local i
    for ((i = 0; i < 1200; i++)); do
        if [ "$(cat part.jsonl 2>/dev/null | grep -c '"event":"step"')" -ge "$1" ]; then return; fi
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
    --optimizer adamw --lr 0.001)
train "${task[@]}" --devices cpu:threads=1 --checkpoint whole --log whole.jsonl

# ---- One process more ----------------------------------------------------------------------------

start 2 --devices cpu:threads=1
await_steps 10
come third
await_line 'device_joined' part.jsonl
come fourth
ends 0 0 "${ids[0]}"
ends 0 1 "${ids[1]}"
ends 0 third "$id"
wait
same "two come"
check "a second process is let in: $(cat err.fourth)" grep -q 'is let in as process 3 of 4$' err.fourth
check "the header: $(cat out.0)" grep -q "^ *up to 4 more may come: dptrain join 127.0.0.1:$port\$" out.0
check "the log" [ "$(grep -c '"event":"device_joined".*"error":"process [23] (.*) has joined"' part.jsonl)" -eq 2 ]
check "steps with four devices" grep -q '"shards":\[[0-9]*,[0-9]*,[0-9]*,[0-9]*\]' part.jsonl
check "one process prints" [ "$(cat out.third out.fourth out.1 | wc -l)" -eq 0 ]
check "it is told: $(cat err.third)" grep -q '^dptrain: this process is let in as process 2 of 3$' err.third
check "who has come: $(cat err.0)" grep -q 'takes part from step [0-9]* on: process 3 (.*) has joined$' err.0

# To one process alone.
DPTRAIN_TRANSPORT='' start 1 --devices cpu:threads=1
await_steps 10
come second
ends 0 0 "${ids[0]}"
ends 0 second "$id"
same "one comes to one"
check "steps with two devices" grep -q '"shards":\[[0-9]*,[0-9]*\]' part.jsonl

# The bits of a run that is resumed at that step with these devices, without --deterministic.
task=(--dataset synthetic:28x28x1:10:1024 --model mlp --batch-size 32 --epochs 12 --split equal --lr 0.05)
start 2 --devices cpu:threads=1 --checkpoint-every 7steps --checkpoint-keep 1000
await_steps 10
come third
ends 0 0 "${ids[0]}"
ends 0 third "$id"
wait
step=$(grep '"event":"resume"' part.jsonl | head -1 | sed 's/.*"step":\([0-9]*\),.*/\1/')
train "${task[@]}" --devices cpu:threads=1,cpu:threads=1 --checkpoint cut --max-steps "$step"
train "${task[@]}" --devices cpu:threads=1,cpu:threads=1,cpu:threads=1 --checkpoint cut --resume
check "equal shares: other weights" cmp cut/model.safetensors part/model.safetensors

# ---- One for one that has died -------------------------------------------------------------------

task=(--dataset synthetic:28x28x1:10:1024 --model lenet --batch-size 32 --epochs 12 --deterministic
    --optimizer adamw --lr 0.001)
start 3 --devices cpu:threads=1
await_steps 10
signal_to KILL "${ids[1]}"
await_line device_lost part.jsonl
come new
await_line device_joined part.jsonl
await_steps $(($(grep -c '"event":"step"' part.jsonl) + 3))
signal_to KILL "${ids[0]}"
await_line "processes may come to 127.0.0.1:$port now" err.2
come newer
ends 137 0 "${ids[0]}"
ends 137 1 "${ids[1]}"
ends 0 2 "${ids[2]}"
ends 0 newer "$id"
wait
same "dead processes are replaced"
check "two have died and two have come" [ "$(grep -c '"event":"device_\(lost\|joined\)' part.jsonl)" -eq 4 ]

# ---- Who dies while it comes ---------------------------------------------------------------------

export DPTRAIN_PROCESS_TIMEOUT=2
joiners=9
start 2 --devices cpu:threads=1 --epochs 24
for pause in 0.05 0.2 0.35 0.5 0.7; do
    await_steps $(($(cat part.jsonl 2>/dev/null | grep -c '"event":"step"') + 8))
    come victim
    sleep "$pause"
    signal_to KILL "$id" 2>/dev/null
    wait "$id" 2>/dev/null
done
come last
await_line 'is let in as process' err.last
ends 0 0 "${ids[0]}"
ends 0 1 "${ids[1]}"
ends 0 last "$id"
train "${task[@]}" --epochs 24 --devices cpu:threads=1 --checkpoint long --log long.jsonl
check "victims: other weights" cmp long/model.safetensors part/model.safetensors
check "victims: the log has each step once" cmp <(course long.jsonl) <(course part.jsonl)

# ---- Members that die while a process comes ------------------------------------------------------

# The process that comes waits until the others have gone on, and begins again if it must.  On a fast machine
# it may be let in before the death.
joiners=2
for victim in 1 0; do
    start 3 --devices cpu:threads=1
    await_steps 5
    come new
    sleep 0.03
    signal_to KILL "${ids[$victim]}"
    ends 0 new "$id"
    for rank in 0 1 2; do
        ends "$([ $rank = $victim ] && echo 137 || echo 0)" $rank "${ids[$rank]}"
    done
    same "process $victim dies"
    check "it is let in: $(cat err.new)" grep -q 'is let in as process \(2 of 3\|3 of 4\)$' err.new
done

# ---- Who is refused ------------------------------------------------------------------------------

joiners=1
start 2 --devices cpu:threads=1 --epochs 100000 --batch-size 3
await_steps 10
DPTRAIN_SECRET_FILE=other refuse 2 'another secret' join "127.0.0.1:$port" --devices cpu:threads=1
DPTRAIN_NETWORKS=10.1.0.0/16 refuse 2 'DPTRAIN_JOIN.: 10.9.9.9:99 .* in no network of DPTRAIN_NETWORKS' join 10.9.9.9:99
for address in nonsense ']:5' '[::1' '[::1]' '[]:5' '[[::1]]:5' ':5' 'host:' 'host:0' 'host:70000' 'host:5x' 'a host:5'; do
    refuse 2 'the address to join .DPTRAIN_JOIN. is ".*": give HOST:PORT, as in .* with a port from 1 to 65535$' \
        join "$address"
done
refuse 2 'the address to join .DPTRAIN_JOIN.: there is no host 300.1.1.1: ' join 300.1.1.1:5
(umask 077 && : >empty && mkdir folder && cp secret group && chmod 640 group)
copy='copy the secret file of the job to this host, and run `chmod 600` on it$'
DPTRAIN_SECRET_FILE='' refuse 2 "DPTRAIN_SECRET_FILE is not set: .*; $copy" join "127.0.0.1:$port"
DPTRAIN_SECRET_FILE=nowhere refuse 2 "DPTRAIN_SECRET_FILE: cannot open nowhere: .*; $copy" join "127.0.0.1:$port"
DPTRAIN_SECRET_FILE=empty refuse 2 "DPTRAIN_SECRET_FILE: empty has fewer than 16 bytes: $copy" join "127.0.0.1:$port"
DPTRAIN_SECRET_FILE=folder refuse 2 "DPTRAIN_SECRET_FILE: folder is no file: $copy" join "127.0.0.1:$port"
DPTRAIN_SECRET_FILE=group refuse 2 'others may read or change group: run `chmod 600` on it$' join "127.0.0.1:$port"
refuse 2 'give one address: dptrain join HOST:PORT' join
refuse 2 'give one address: dptrain join HOST:PORT' join ''
refuse 2 'DPTRAIN_JOIN.: .fe80::1.:29500 is a link-local address' join '[fe80::1]:29500'
refuse 2 "--batch-size does not go with 'dptrain join'" join "127.0.0.1:$port" --batch-size 64
refuse 1 'nobody listens at 127.0.0.1:1: .*was started with DPTRAIN_JOINERS' join 127.0.0.1:1
refuse 2 'the job has room for 1 more device, and this process has 2' join "127.0.0.1:$port" \
    --devices cpu:threads=1,cpu:threads=1
DPTRAIN_JOIN=127.0.0.1:$port refuse 2 'the job is dptrain .* train, this process is dptrain .* bench allreduce' \
    bench allreduce --devices cpu:threads=1
# Other options: a program that gives its own.  The others do not notice.
DPTRAIN_JOIN=127.0.0.1:$port refuse 2 'batch size differs: the job has 3, this process has 32; come with' "${task[@]}" --devices cpu:threads=1
await_steps $(($(grep -c '"event":"step"' part.jsonl) + 5))
check "the others go on: $(cat err.0)" kill -0 "${ids[0]}" "${ids[1]}"
check "the others do not stop: $(cat err.0)" [ "$(grep -c '"event":"\(resume\|device_joined\)"' part.jsonl)" -eq 0 ]
come only
await_line 'is let in as process 2 of 3' err.only
signal_to KILL "$id"
wait "$id"
refuse 2 'lets 1 process come in all .DPTRAIN_JOINERS., and so many have come' join "127.0.0.1:$port" --devices cpu:threads=1
check "nobody was told twice: $(cat err.0)" grep -q 'it has another secret' err.0
signal_to TERM "${ids[0]}"
ends 143 0 "${ids[0]}"
ends 143 1 "${ids[1]}"

# Other data in the same files, and the same data elsewhere.
for name in mine theirs same; do
    mkdir $name
    awk -v add="$([ $name = theirs ] && echo 1 || echo 0)" 'BEGIN { print "a,b,label"
        for (i = 0; i < 60; i++) printf "%d,%d,%d\n", i % 7, i % 5 + (i == 33 ? add : 0), i % 3 }' >$name/rows.csv
done
task=(--dataset csv:rows.csv:label --model mlp --batch-size 6)
start 2 --devices cpu:threads=1 --epochs 100000 --data mine
await_steps 10
refuse 2 'the .*data differs: the job has .*, this process has .*; come with the job.s data and options$' \
    join "127.0.0.1:$port" --devices cpu:threads=1 --data theirs
check "the others do not stop: $(cat err.0)" [ "$(grep -c '"event":"\(resume\|device_joined\)"' part.jsonl)" -eq 0 ]
come same --data same
await_line 'is let in as process 2 of 3' err.same
signal_to TERM "${ids[0]}"
ends 143 0 "${ids[0]}"
ends 143 1 "${ids[1]}"
wait "$id"

# A process that has died before the first step has no place any more.
port=$((port + 1))
for rank in 0 1; do
    DPTRAIN_ADDRESS=127.0.0.1:$port DPTRAIN_PROCESSES=2 DPTRAIN_RANK=$rank DPTRAIN_JOINERS=3 timeout 120 \
        "$DPTRAIN" "${task[@]}" --data mine --devices "$([ $rank = 0 ] && echo cpu:threads=1 || echo nothing)" \
        --max-steps 2 >"out.$rank" 2>"err.$rank" </dev/null &
    ids[rank]=$!
done
ends 0 0 "${ids[0]}"
ends 2 1 "${ids[1]}"
check "the header: $(cat out.0 err.0)" grep -q '^processes 1: ' out.0
check "places of the dead: $(cat out.0)" grep -q '^ *up to 3 more may come: dptrain join' out.0

# A job that lets nobody in closes its door.
joiners=0
start 2 --devices cpu:threads=1 --epochs 100000 --data mine
await_steps 5
refuse 1 'nobody listens at' join "127.0.0.1:$port" --devices cpu:threads=1
signal_to TERM "${ids[0]}"
ends 143 0 "${ids[0]}"

export DPTRAIN_ADDRESS=127.0.0.1:$port DPTRAIN_PROCESSES=1 DPTRAIN_RANK=0
few=(--dataset synthetic:8x8x1:4:64 --model linear --devices cpu:threads=1 --max-steps 2)
DPTRAIN_JOINERS=many refuse 2 'DPTRAIN_JOINERS is "many": give a number from 0 to 255' "${few[@]}"
DPTRAIN_JOINERS=1 refuse 2 'processes may come .DPTRAIN_JOINERS., and a split of numbers' "${few[@]}" --split 1
DPTRAIN_JOINERS=1 DPTRAIN_ADDRESS='' DPTRAIN_PROCESSES='' DPTRAIN_RANK='' refuse 2 \
    'DPTRAIN_JOINERS is set and DPTRAIN_ADDRESS is not' "${few[@]}"
finish
