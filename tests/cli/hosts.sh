#!/usr/bin/env bash
# Two hosts with a network of 1 Gbit/s between them: the same training as in one process, and a clear
# end when a process on the other host is killed or the network is cut.
. "$SRC/tests/cli/kit.bash"
. "$SRC/scripts/hosts.bash"
hosts_able || absent hosts "$hosts_why"
if [ ! -e "$(dirname "$DPTRAIN")/../lib/dptrain/transports/libdptrain-mpi.so" ]; then
    absent mpi "built without MPI"
fi
if [ -n "${TSAN_OPTIONS:-}" ]; then
    echo "skipped: MPI's library is not instrumented for ThreadSanitizer"
    exit 77
fi
export ASAN_OPTIONS=detect_leaks=0 # what MPI keeps until the process ends
hosts_up 2 1gbit

task=(--dataset synthetic:28x28x1:10:700 --batch-size 61 --lr 0.05 --momentum 0.9)

# hosts PROCESSES ARGUMENT...: dptrain on both, the first process with two devices, the others
# with one; output in hosts.out and hosts.err, status in $status.
hosts() {
    local n=$1
    shift
    hosts_mpi "$n" sh -c \
        'if [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then more=,cpu:threads=1; else more=; fi
         exec "$0" "$@" --devices "cpu:threads=1$more"' \
        "$DPTRAIN" "${task[@]}" "$@" >hosts.out 2>hosts.err </dev/null
    status=$?
}

train "${task[@]}" --devices cpu:threads=1,cpu:threads=1,cpu:threads=1 --split 3:1:2 --epochs 2 \
    --checkpoint one --log one.jsonl
hosts 2 --split 3:1:2 --epochs 2 --checkpoint two --log two.jsonl
check "two hosts: $(cat hosts.err)" [ "$status" -eq 0 ]
check "other weights" cmp -s one/model.safetensors two/model.safetensors
for i in 1 2; do
    check "host $i is not named: $(cat hosts.out)" grep -q "process $((i - 1)) on host$i\$" hosts.out
done
hosts 4 --split 3:1:2:1:4 --epochs 2 --checkpoint four --log four.jsonl
check "four processes on two hosts: $(cat hosts.err)" [ "$status" -eq 0 ]
train "${task[@]}" --devices "$(printf 'cpu:threads=1%.0s' 1)$(printf ',cpu:threads=1%.0s' {2..5})" \
    --split 3:1:2:1:4 --epochs 2 --checkpoint five
check "other weights with four" cmp -s five/model.safetensors four/model.safetensors

# A process on the other host is killed: the job ends, and the last checkpoint is whole.
loses_a_process hosts 2
check "mpirun tells who was killed: $(cat hosts.err)" eval \
    "tr '\n' ' ' <hosts.err | grep -q 'rank 1 .*10[.]77[.]0[.]2.*signal 9'"

# A cable is pulled out: mpirun, told not to wait for minutes, ends the job on both sides.
export OMPI_MCA_oob_tcp_keepalive_time=5 OMPI_MCA_oob_tcp_keepalive_intvl=2 OMPI_MCA_oob_tcp_keepalive_probes=3
rm -rf cut
hosts 2 --epochs 100000 --checkpoint cut &
await cut/model.safetensors
ip -n "$hosts_name-2" link set port down
began=$SECONDS
wait
check "without a network the job ends" [ $((SECONDS - began)) -lt 60 ]
check "mpirun tells why: $(cat hosts.err)" grep -q 'lost communication with a remote daemon' hosts.err
sleep 2
check "processes that go on: $(trainings)" [ -z "$(trainings)" ]
check "the checkpoint is whole" "$DPTRAIN" eval --dataset synthetic:28x28x1:10:700 \
    --devices cpu:threads=1 --checkpoint cut
finish
