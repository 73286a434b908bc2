#!/usr/bin/env bash
# On a terminal: the bar, its colours, what is being measured, and Ctrl-C.
. "$SRC/tests/cli/kit.bash"
need_python
python3 -c 'import pty; pty.openpty()' 2>/dev/null || {
    echo "skipped: this machine gives no pseudo-terminal"
    exit 77
}

# on_terminal ENVIRONMENT ARGUMENT...: runs dptrain on a pseudo-terminal, output in terminal.out.
on_terminal() {
    local setting=$1
    shift
    python3 - "$setting" "$DPTRAIN" "$@" <<'PYTHON'
import os, pty, sys
setting, *command = sys.argv[1:]
pid, fd = pty.fork()
if pid == 0:
    os.environ.pop("NO_COLOR", None)
    os.environ["TERM"] = "xterm"
    if setting:
        key, value = setting.split("=", 1)
        os.environ[key] = value
    os.execv(command[0], command)
with open("terminal.out", "wb") as out:
    while True:
        try:
            data = os.read(fd, 65536)
        except OSError:
            break
        if not data:
            break
        out.write(data)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PYTHON
}

run=(--dataset synthetic:28x28x1:10:2000 --model mlp --batch-size 50 --epochs 1)
esc=$(printf '\033')
on_terminal "" "${run[@]}"
check "training on a terminal" test $? -eq 0
check "there is a bar" grep -qE 'epoch 1/1 \[.*\] +[0-9]+ %  loss [0-9.]+  acc [0-9.]+  [0-9]+ img/s  0:[0-9]+ left' \
    terminal.out
check "the bar is coloured" grep -qF "$esc[32m" terminal.out
check "the bar is taken away" grep -qF "$esc[K" terminal.out
on_terminal NO_COLOR=1 "${run[@]}"
check "NO_COLOR keeps the bar" grep -qF '[' terminal.out
check "NO_COLOR takes the colour" test -z "$(grep -F "$esc[32m" terminal.out)"
on_terminal TERM=dumb "${run[@]}"
check "no bar on a dumb terminal" test -z "$(grep -F "$esc" terminal.out)"
on_terminal "" "${run[@]}" --quiet
check "--quiet prints nothing" test ! -s terminal.out

on_terminal "" devices --devices cpu:threads=1
check "devices says what it measures" grep -qF "measuring cpu:threads=1 ..." terminal.out
check "and takes it away" grep -qF "$esc[K" terminal.out
on_terminal TERM=dumb devices --devices cpu:threads=1
check "a dumb terminal gets the table alone" test "$(grep -c measuring terminal.out)" -eq 0

on_terminal "" bench mix --devices cpu:threads=1,cpu:threads=1 --dataset synthetic:8x8x1:4:256 \
    --model linear --batch-size 64 --max-steps 2 --repeat 1
check "bench says what it runs" grep -qE "1/4  0 alone, [0-9]+ samples, preparing" terminal.out
check "and how long it will take" grep -qE "about 0:[0-9]+ left" terminal.out
check "and takes it away" grep -qF "$esc[K" terminal.out

rm -rf int int.jsonl int.svg
# Ctrl-C once: what is due is written, and the exit status is the shell's for SIGINT.
check "interrupt" python3 - "$DPTRAIN" <<'PYTHON'
import json, os, signal, subprocess, sys, time
process = subprocess.Popen(
    [sys.argv[1], "train", "--dataset=synthetic:28x28x1:10:2000", "--model=mlp", "--batch-size=50",
     "--max-time=300", "--log=int.jsonl", "--checkpoint=int", "--plot=int.svg"],
    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
for _ in range(600): # until it trains
    if os.path.exists("int.jsonl") and open("int.jsonl").read().count('"step"') > 3:
        break
    time.sleep(0.1)
process.send_signal(signal.SIGINT)
_, stderr = process.communicate(timeout=60)
assert process.returncode == 130, process.returncode
assert stderr.split("\n")[:2] == ["dptrain: signal 2: ending after this step",
                                 "dptrain: ended early by signal 2; --resume continues"], stderr
assert stderr.count("\n") == 2, stderr
events = [json.loads(line) for line in open("int.jsonl")]
assert events[-1]["event"] == "done", events[-1]
assert os.path.getsize("int/model.safetensors") > 1000 and os.path.getsize("int.svg") > 100
PYTHON

# As in a script's background job, where the shell has SIGINT ignored: Ctrl-C is not for dptrain.
check "an ignored interrupt" python3 - "$DPTRAIN" <<'PYTHON'
import os, signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN) # inherited
if os.path.exists("ignored.jsonl"):
    os.remove("ignored.jsonl")
process = subprocess.Popen(
    [sys.argv[1], "train", "--dataset=synthetic:28x28x1:10:2000", "--model=linear", "--quiet",
     "--batch-size=50", "--max-time=300", "--log=ignored.jsonl"], stderr=subprocess.PIPE, text=True)
def wait_for(steps):
    while process.poll() is None:
        if os.path.exists("ignored.jsonl") and open("ignored.jsonl").read().count('"step"') > steps:
            return
        time.sleep(0.01)
wait_for(3)
process.send_signal(signal.SIGINT)
wait_for(open("ignored.jsonl").read().count('"step"') + 50)
assert process.poll() is None, "ended by an interrupt that is ignored"
process.terminate()
process.communicate(timeout=60)
assert process.returncode == 143, process.returncode
PYTHON
finish
