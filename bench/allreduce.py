"""All-reduce of two CPU devices in dptrain, Open MPI and gloo (bench/allreduce.sh)."""
import json, os, statistics, subprocess, sys, tempfile, time

MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "core", "-n", "2"]
SHOWN = [4096, 65536, 1048576, 4194304, 16777216, 45000000, 67108864]


def gloo(rank, sizes):
    """One of the two processes; rank 0 prints what the MPI program prints."""
    import torch, torch.distributed as dist
    os.sched_setaffinity(0, [sorted(os.sched_getaffinity(0))[rank]])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    for size in sizes:
        data = torch.zeros(size // 4)
        n = max(9, min(400, (1 << 28) // size // 4))
        seconds = []
        for i in range(n + 2):
            began = time.perf_counter()
            dist.all_reduce(data)
            if i >= 2:
                seconds.append(time.perf_counter() - began)
        if rank == 0:
            print(size, statistics.median(seconds), flush=True)
    dist.destroy_process_group()


def pairs(text):
    return {int(a): float(b) for a, b in (line.split() for line in text.splitlines())}


def run_gloo(port):
    env = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    command = [sys.executable, __file__, "gloo"]
    other = subprocess.Popen(command + ["1"], env=env)
    text = subprocess.run(command + ["0"], env=env, check=True, capture_output=True, text=True)
    other.wait()
    return pairs(text.stdout)


def run_dptrain(dptrain, launcher, devices):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run(launcher + [dptrain, "bench", "allreduce", "--devices", devices,
                                   "--json", file.name], check=True, capture_output=True)
        result = json.load(open(file.name))
    return ({row["bytes"]: row["seconds"] for row in result["table"]},
            result["memory_bytes_per_second"])


def main(dptrain, mpi_program, rounds="3"):
    ways = {"one": [], "two": [], "mpi": [], "gloo": []}
    memory = []
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    for i in range(int(rounds)):
        seconds, rate = run_dptrain(dptrain, [], "cpu:threads=1,cpu:threads=1")
        ways["one"].append(seconds)
        memory.append(rate)
        ways["two"].append(run_dptrain(dptrain, MPIRUN, "cpu:threads=1")[0])
        text = subprocess.run(MPIRUN + [mpi_program] + [str(s) for s in SHOWN], check=True,
                              capture_output=True, text=True).stdout
        ways["mpi"].append(pairs(text))
        ways["gloo"].append(run_gloo(29500 + i))
    rate = statistics.median(memory)
    print(f"Memory, read and written in place by both cores: {rate / 1e9:.1f} GB/s.\n")
    print("| bytes | floor, ms | one process, ms | of memory | two processes, ms "
          "| Open MPI, ms | gloo, ms | gloo / one | gloo / two |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for size in SHOWN:
        floor = 4 * size / rate
        one, two, mpi, gl = (statistics.median(r[size] for r in ways[w])
                             for w in ("one", "two", "mpi", "gloo"))
        print(f"| {size} | {1e3 * floor:.3f} | {1e3 * one:.3f} | {100 * floor / one:.0f} % "
              f"| {1e3 * two:.3f} | {1e3 * mpi:.3f} | {1e3 * gl:.3f} | {gl / one:.1f} "
              f"| {gl / two:.1f} |")


if sys.argv[1] == "gloo":
    gloo(int(sys.argv[2]), SHOWN)
else:
    main(*sys.argv[1:])
