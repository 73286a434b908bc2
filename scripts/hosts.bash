# Sourced: several hosts on one machine, for what crosses a network.  Every host is a network
# namespace with a host name of its own, connected to a switch by a link whose rate can be limited.
#
#     hosts_able || skip "$hosts_why"     # needs root, iproute2 and Open MPI
#     hosts_up 2 100mbit                  # 10.77.0.1 and 10.77.0.2; removed when the shell ends
#     hosts_mpi 4 dptrain ...             # mpirun on the first: processes 0 2 there, 1 3 on the other
#     hosts_rate 1gbit
#
# The limit is a token bucket on both ends of a link, so each direction has the rate of its own.

hosts_why=
hosts_count=0
hosts_name=dpt$$

hosts_able() {
    local command
    for command in ip tc unshare mpirun; do
        if ! command -v $command >/dev/null 2>&1; then
            hosts_why="there is no $command"
            return 1
        fi
    done
    if ! ip netns add "$hosts_name-try" 2>/dev/null; then
        hosts_why="no network namespaces can be made here (root can)"
        return 1
    fi
    hosts_why="this kernel has no bridge, no pairs of links or no token bucket"
    ip -n "$hosts_name-try" link add bridge type bridge 2>/dev/null &&
        ip -n "$hosts_name-try" link add one type veth peer name two 2>/dev/null &&
        ip netns exec "$hosts_name-try" tc qdisc add dev one root tbf rate 1gbit burst 128kb \
            latency 100ms 2>/dev/null &&
        ip netns exec "$hosts_name-try" unshare --uts hostname one && hosts_why=
    ip netns del "$hosts_name-try"
    [ -z "$hosts_why" ]
}

# hosts_up COUNT [RATE]
hosts_up() {
    local i
    trap hosts_down EXIT
    hosts_count=$1
    ip netns add "$hosts_name-switch"
    ip -n "$hosts_name-switch" link add bridge type bridge
    ip -n "$hosts_name-switch" link set bridge up
    for ((i = 1; i <= hosts_count; i++)); do
        ip netns add "$hosts_name-$i"
        ip link add port netns "$hosts_name-$i" type veth peer name "port$i" \
            netns "$hosts_name-switch"
        ip -n "$hosts_name-$i" addr add "10.77.0.$i/24" dev port
        ip -n "$hosts_name-$i" link set lo up
        ip -n "$hosts_name-$i" link set port up
        ip -n "$hosts_name-switch" link set "port$i" master bridge
        ip -n "$hosts_name-switch" link set "port$i" up
    done
    # Starts processes on the other hosts in place of ssh: AGENT HOST COMMAND...
    hosts_agent=$(mktemp)
    cat >"$hosts_agent" <<AGENT
#!/bin/sh
i=\${1##*.}
shift
exec ip netns exec $hosts_name-\$i unshare --uts sh -c "hostname host\$i; \$*"
AGENT
    chmod +x "$hosts_agent"
    if [ $# -gt 1 ]; then hosts_rate "$2"; fi
}

# hosts_rate RATE: as tc has it, such as 100mbit; none for as fast as the machine is.
hosts_rate() {
    local i
    for ((i = 1; i <= hosts_count; i++)); do
        hosts_limit "$hosts_name-$i" port "$1"
        hosts_limit "$hosts_name-switch" "port$i" "$1"
    done
}

hosts_limit() {
    ip netns exec "$1" tc qdisc del dev "$2" root 2>/dev/null || true
    if [ "$3" != none ]; then
        ip netns exec "$1" tc qdisc add dev "$2" root tbf rate "$3" burst 128kb latency 100ms
    fi
}

# hosts_mpi PROCESSES ARGUMENT...: mpirun, what of it follows -n N.  Open MPI 5.0.7 finds no place for
# processes on hosts of fewer cores than slots, unless it may oversubscribe them.
hosts_mpi() {
    local n=$1 i list="" exports
    shift
    for ((i = 1; i <= hosts_count; i++)); do list+=${list:+,}10.77.0.$i:64; done
    mapfile -t exports < <(hosts_exports)
    hosts_on 1 env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun \
        --mca plm_rsh_agent "$hosts_agent" --mca oob_tcp_if_include 10.77.0.0/24 \
        --mca btl tcp,vader,self --mca btl_tcp_if_include 10.77.0.0/24 --bind-to none \
        --host "$list" --map-by node:oversubscribe "${exports[@]}" -n "$n" "$@"
}

# Our variables, for the processes that mpirun starts elsewhere.
hosts_exports() {
    local name
    for name in $(compgen -e); do
        case $name in
        DPTRAIN_* | XDG_CACHE_HOME | OCL_ICD_VENDORS | LD_LIBRARY_PATH | ASAN_OPTIONS) printf -- '-x\n%s\n' "$name" ;;
        esac
    done
}

# hosts_on HOST COMMAND...
hosts_on() {
    local i=$1
    shift
    ip netns exec "$hosts_name-$i" unshare --uts sh -c "hostname host$i"'; exec "$@"' sh "$@"
}

hosts_down() {
    local i
    for ((i = 1; i <= hosts_count; i++)); do ip netns del "$hosts_name-$i" 2>/dev/null; done
    ip netns del "$hosts_name-switch" 2>/dev/null
    rm -f "${hosts_agent:-}"
}
