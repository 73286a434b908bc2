"""Forks, the end of the interpreter, and objects that end in any order: no crash, no hang."""

import os
import shutil
import subprocess
import sys

import pytest

HEAD = """
import gc, os, sys, threading, time
import numpy as np
import dptrain
x = np.random.default_rng(0).random((256, 1, 28, 28), dtype=np.float32)
y = np.arange(256) % 10
def fit(net, **options):
    return dptrain.fit(net, (x, y), devices="cpu,cpu", **options)
def trainer(net):
    return dptrain.Trainer(net, (x, y), devices="cpu,cpu")
"""

RANK = """
rank = int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["PMI_RANK"])
"""


@pytest.fixture
def run(program):
    def run(text):
        code, out, error = program(HEAD + text)
        assert "Traceback" not in error and "Fatal" not in error, error
        return code, out.split()

    return run


def test_a_forked_process_gets_an_error_and_its_parent_goes_on(run):
    text = """
net = dptrain.Model("lenet")
fit(net, max_steps=1)
pid = os.fork()
if pid == 0:
    try:
        dptrain.predict(net, x, devices="cpu")
    except dptrain.errors.ForkedError as why:
        code = 7 if "spawn" in str(why) else 8
    net.close()
    gc.collect()
    os._exit(code)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), fit(net, max_steps=1).steps)
"""
    assert run(text) == (0, ["7", "1"])


def test_a_forked_process_ends_as_usual(run):
    text = """
net = dptrain.Model("lenet")
t = trainer(net)
t.step()
t.keep_weights()
pid = os.fork()
if pid == 0:
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), os.path.exists(net._weights_path), t.step().step)
"""
    assert run(text) == (0, ["3", "True", "2"])


def test_a_fork_before_the_first_use(run):
    text = """
import multiprocessing
def work(queue):
    queue.put(fit(dptrain.Model("lenet"), max_steps=2).steps)
fork = multiprocessing.get_context("fork")
queue = fork.Queue()
process = fork.Process(target=work, args=(queue,))
process.start()
print(queue.get(timeout=60), fit(dptrain.Model("lenet"), max_steps=1).steps)
process.join()
print(process.exitcode)
"""
    assert run(text) == (0, ["2", "1", "0"])


def test_a_fork_in_the_middle_of_a_training(run):
    text = """
def split(step):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
print(fit(dptrain.Model("lenet"), max_steps=4, on_step=split).steps)
"""
    assert run(text) == (0, ["4"])


@pytest.mark.parametrize(
    "end, code", [("sys.exit(7)", 7), ("sys.exit()", 0), ("return", 1), ("1 / 0", 1)]
)
@pytest.mark.parametrize("where", ["on_step", "wants_checkpoint", "loss"])
def test_a_forked_process_does_not_return_to_the_library(run, where, end, code):
    text = f"""
import numpy as np, tempfile
pids = []
def split(*given):
    if not pids:
        pids.append(os.fork())
        if pids[0] == 0:
            {end}
    if given and isinstance(given[0], np.ndarray):
        return given[0].sum(1), np.ones_like(given[0])
with tempfile.TemporaryDirectory() as folder:
    steps = fit(dptrain.Model("lenet"), max_steps=2, checkpoint=folder, {where}=split).steps
print(steps, os.waitstatus_to_exitcode(os.waitpid(pids[0], 0)[1]))
"""
    assert run(text) == (0, ["2", str(code)])


def test_the_interpreter_ends_while_a_thread_trains(run):
    text = """
began = threading.Event()
def work():
    fit(dptrain.Model("lenet"), epochs=10**6, on_step=lambda step: began.set())
threading.Thread(target=work, daemon=True).start()
began.wait()
print("leaving")
"""
    assert run(text) == (0, ["leaving"])


@pytest.mark.parametrize(
    "text",
    [
        "import builtins; builtins.kept = trainer(dptrain.Model('lenet')); builtins.kept.submit()",
        "t = trainer(dptrain.Model('lenet')); t.me = t; t.step(); del t; gc.collect()",
        "t = trainer(dptrain.Model('lenet')); t.me = t; t.step()",
        "t = trainer(dptrain.Model('lenet')); t.step(); t.net.close(); t.step()",
        "n = dptrain.Model('lenet'); fit(n, max_steps=1); dptrain.predict(n, x); del n",
        "b = dptrain.Builder('unfinished'); b.input(1, 8, 8); b.me = b",
    ],
)
def test_objects_that_live_to_the_end(run, text):
    assert run(text) == (0, [])


def test_an_exit_within_a_callback(run):
    assert run("fit(dptrain.Model('lenet'), on_step=lambda step: sys.exit(5))") == (5, [])


def test_use_after_close(run):
    text = """
net = dptrain.Model("lenet")
t = trainer(net)
t.step()
t.close()
t.close()
uses = [t.step, t.submit, t.devices, lambda: t.steps, lambda: t.get("fc2.bias"), lambda: t.evaluate((x, y))]
for use in uses:
    try:
        use()
    except dptrain.errors.ClosedError:
        print("closed")
"""
    assert run(text) == (0, ["closed"] * 6)


def test_objects_dropped_by_other_threads_during_a_training(run):
    text = """
stop = threading.Event()
def churn():
    while not stop.is_set():
        dptrain.Model("mlp", input=(1, 8, 8), classes=3).close()
        b = dptrain.Builder("b"); b.input(1, 8, 8); del b
threads = [threading.Thread(target=churn) for _ in range(2)]
[t.start() for t in threads]
def drop(step):
    dptrain.Model("mlp", input=(1, 8, 8), classes=3).parameter_count
    gc.collect()
print(fit(dptrain.Model("lenet"), max_steps=10, on_step=drop).steps)
stop.set()
[t.join() for t in threads]
"""
    assert run(text) == (0, ["10"])


def test_start_up_loads_neither_pytorch_nor_scikit_learn(run):
    text = """
fit(dptrain.Model("lenet"), max_steps=1)
print([name for name in ("torch", "sklearn", "tqdm", "pycparser") if name in sys.modules])
"""
    assert run(text) == (0, ["[]"])


@pytest.fixture
def run_two():
    """Runs a program in two processes of `mpirun`; returns the status of `mpirun`, and all that was printed."""
    if not shutil.which("mpirun") or "TSAN_OPTIONS" in os.environ:
        pytest.skip("there is no mpirun, or ThreadSanitizer does not know MPI's library")

    def run_two(text):
        env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        command = ["mpirun", "--oversubscribe", "-n", "2", sys.executable, "-c", HEAD + RANK + text]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=120, env=env, stdin=subprocess.DEVNULL
        )
        if "libdptrain-mpi" in done.stderr:
            pytest.skip("built without MPI")
        return done.returncode, done.stdout + done.stderr

    return run_two


def test_an_exception_in_one_process_of_two_ends_both(run_two):
    status, printed = run_two("""
net = dptrain.Model("lenet")
def train():
    return dptrain.fit(net, (x, y), devices="cpu:threads=1", max_steps=2)
train()
if rank == 1:
    raise ValueError("only here")
train()
print("the other process has trained alone")
""")
    assert status != 0 and "ValueError: only here" in printed
    assert "trained alone" not in printed


def test_two_processes_end_as_usual(run_two):
    status, printed = run_two("""
steps = dptrain.fit(dptrain.Model("lenet"), (x, y), devices="cpu:threads=1", max_steps=2).steps
try:
    raise ValueError("caught")
except ValueError:
    print("steps:", steps)
""")
    assert status == 0 and printed.count("steps: 2") == 2
