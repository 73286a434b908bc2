#!/usr/bin/env bash
# dptrain bench mix: the table, the JSON whose figures follow from its own runs, and what it refuses.
. "$SRC/tests/cli/kit.bash"
need_python
rm -f ./*.json pipe # of an earlier run: what this one does not write is to be missing

small=(--dataset synthetic:8x8x1:4:256 --model linear --batch-size 64 --max-steps 3 --max-time 0.01)
pair=cpu:threads=1,cpu:threads=1:throttle=4

# bench CODE ARGUMENT...: a benchmark that must end with that status; bench.out and bench.err.
bench() {
    local code=$1 got
    shift
    checks=$((checks + 1))
    "$DPTRAIN" bench mix "$@" >bench.out 2>bench.err </dev/null
    got=$?
    [ "$got" -eq "$code" ] || fail "dptrain bench mix $*: exit status $got: $(cat bench.err)"
}
says() { check "it says $1: $(cat bench.out)" grep -qE "$1" bench.out; }

# ---- Mistakes --------------------------------------------------------------------------------------

refuse 2 "say what to measure: dptrain bench mix" bench
refuse 2 "unknown benchmark 'mux'; did you mean 'mix'" bench mux --devices $pair
refuse 2 "unknown benchmark 'zzzzzz'; known: mix" bench zzzzzz
refuse 2 "unexpected argument 'lenet'" bench mix lenet
refuse 2 "needs the devices to compare: --devices LIST" bench mix
refuse 2 "cpu:threads=1 is one; name several" bench mix --devices cpu:threads=1 "${small[@]}"
refuse 2 "unknown device .gpu0" bench mix --devices gpu0,cpu "${small[@]}"
seven=cpu:threads=1$(printf ',cpu:threads=1%.0s' 1 2 3 4 5 6)
refuse 2 "7 devices make 120 mixes.*at most 6 devices, or .*--all-only" bench mix --devices "$seven" \
    "${small[@]}"
refuse 2 "at most 16 devices, and these are 17" bench mix --all-only "${small[@]}" \
    --devices "cpu:threads=1$(printf ',cpu:threads=1%.0s' {1..16})"
refuse 2 "unknown option --reapet; did you mean --repeat" bench mix --reapet 3
refuse 2 "--split does not go with 'dptrain bench'" bench mix --devices $pair --split equal
refuse 2 "'0' is not a whole number from 1 to" bench mix --devices $pair --repeat 0
refuse 2 "--repeat does not go with 'dptrain train'" --repeat 3
refuse 2 "unknown model 'lenett'" bench mix --devices $pair --dataset synthetic:8x8x1:4:256 \
    --model lenett
refuse 1 "/nowhere/mix.json.*create the folder first" bench mix --devices $pair "${small[@]}" \
    --json /nowhere/mix.json
mkdir -p folder
refuse 1 "cannot write folder: " bench mix --devices $pair "${small[@]}" --json folder
echo kept >kept.json
refuse 2 "unknown model" bench mix --devices $pair --dataset synthetic:8x8x1:4:256 --model lenett \
    --json kept.json
check "a refusal leaves the file" grep -qx kept kept.json
refuse_batch() { # the table's head is printed before the first run says so
    bench 2 --devices $pair "${small[@]}" --batch-size 257
    check "a batch beyond the data" grep -q "batch of 257 is more than the 256" bench.err
    check "in one line" test "$(wc -l <bench.err)" -eq 1
}
refuse_batch

# ---- Two devices, alike but for the throttle ---------------------------------------------------------

bench 0 --devices $pair "${small[@]}" --repeat 3 --json pair.json
check "nothing on stderr that is no terminal" test ! -s bench.err
says '^0 +cpu:threads=1: '
says '^1 +cpu:threads=1:throttle=4: '
says '^DEVICES +SPLIT +SHARDS +IMG/S +LEAST +MOST +BALANCE +SCALING +GAIN$'
says '^0 +alone +64( +[0-9.]+){3}( +-){3}$'
says '^1 +alone +64( +[0-9.]+){3}( +-){3}$'
says '^0,1 +equal +32:32( +[0-9.]+){5} +-$'
says '^0,1 +measured +[0-9]+:[0-9]+( +[0-9.]+){6}$'
says '^wrote pair.json$'
check "no file is left over" test "$(ls -A | grep -c '\.tmp$')" -eq 0

# figures NAME: what holds for every file, whatever was measured.
cat >figures.py <<'PYTHON'
import json, statistics, sys
d = json.load(open(sys.argv[1]))
def near(a, b):
    return abs(a - b) <= 1e-6 * abs(b)
done = [r for r in d["runs"] if "images_per_second" in r]
alone = {(r["repetition"], r["devices"][0], r["batch_size"]): r["images_per_second"]
         for r in done if r["split"] == "alone"}
even = {(r["repetition"], tuple(r["devices"])): r["images_per_second"]
        for r in done if r["split"] == "equal"}
for r in done:
    n = len(r["devices"])
    assert r["steps"] > 0 and r["seconds"] > 0 and r["settling_steps"] >= 3
    assert r["samples"] == r["steps"] * r["batch_size"], r
    assert near(r["images_per_second"], r["samples"] / r["seconds"])
    assert len(r["shards"]) == n and sum(r["shards"]) == r["batch_size"] and r["shares"] == r["shards"]
    assert 1 <= r["shard_steps"] <= r["steps"] and r["share_steps"] == r["shard_steps"]
    for key in ("busy_seconds", "exchange_seconds", "waiting_seconds"):
        assert len(r[key]) == n and all(x >= 0 for x in r[key]), key
    assert max(r["busy_seconds"]) > 0
    if n == 1:
        assert "balance" not in r and r["split"] == "alone"
        continue
    parts = [alone.get((r["repetition"], i, s)) if s else 0 for i, s in zip(r["devices"], r["shards"])]
    wholes = [alone.get((r["repetition"], i, r["batch_size"])) for i in r["devices"]]
    assert r["alone_at_share"] == parts and r["alone_at_batch"] == wholes, (r, parts, wholes)
    for key, rates in (("balance", parts), ("scaling", wholes)):
        if None in rates:
            assert r[key] is None
        else:
            assert r[key] > 0 and near(r[key], r["images_per_second"] / sum(rates)), (key, r)
    if r["split"] == "measured":
        other = even.get((r["repetition"], tuple(r["devices"])))
        assert r["gain"] is None if other is None else near(r["gain"], r["images_per_second"] / other)
for row in d["table"]:
    same = [r for r in done if r["devices"] == row["devices"] and r["split"] == row["split"]
            and r["batch_size"] == row["batch_size"]]
    assert len({r["repetition"] for r in same}) >= row["repetitions"]
    for key in ("images_per_second", "balance", "scaling", "gain"):
        values = [r[key] for r in same if r.get(key) is not None]
        if row.get(key) is not None:
            assert near(row[key]["median"], statistics.median(values)), (key, row, values)
            assert near(row[key]["min"], min(values)) and near(row[key]["max"], max(values))
assert d["failures"] == sum("error" in r for r in d["runs"])
assert d["version"] and d["machine"]["cores"] >= 1 and len(d["started"]) == 20
assert d["parameters"] > 0 and d["benchmark"] == "mix"
PYTHON
figures() { check "the figures of $1 follow from its runs" python3 figures.py "$1"; }
figures pair.json
check "what was run on what" python3 - <<'PYTHON'
import json
d = json.load(open("pair.json"))
assert d["complete"] is True and d["failures"] == 0
assert [x["id"] for x in d["devices"]] == ["cpu:threads=1", "cpu:threads=1:throttle=4"]
assert d["options"]["repeat"] == 3 and d["options"]["batch_size"] == 64
assert d["options"]["overlap"] == "on" and d["options"]["precision"] == "fp32"
assert d["options"]["augment"] == {"crop_padding": 0, "flip": False, "erase": 0,
                                   "resized_crop": 0}
assert [(r["devices"], r["split"], r["repetitions"]) for r in d["table"]] == [
    ([0], "alone", 3), ([1], "alone", 3), ([0, 1], "equal", 3), ([0, 1], "measured", 3)]
mixes = [(r["repetition"], r["split"]) for r in d["runs"] if len(r["devices"]) == 2]
assert mixes == [(1, "equal"), (1, "measured"), (2, "measured"), (2, "equal"), (3, "equal"),
                 (3, "measured")], mixes
assert all(r["balance"] is not None for r in d["runs"] if len(r["devices"]) == 2)
PYTHON

# Which is the fastest is for the machine to say; that it is the fastest of the table is not.
check "the fastest: $(grep ^fastest bench.out)" python3 - <<'PYTHON'
import json, re
rows = json.load(open("pair.json"))["table"]
rate = lambda r: r["images_per_second"]["median"]
mix = max((r for r in rows if len(r["devices"]) == 2), key=rate)
alone = max((r for r in rows if len(r["devices"]) == 1), key=rate)
said = re.search(r"^fastest: 0,1 with (\w+) shards, ([0-9.]+) times the fastest device alone "
                 r"\(([01]), batches of 64\)$", open("bench.out").read(), re.M)
assert said[1] == mix["split"] and int(said[3]) == alone["devices"][0], (said[0], rows)
assert abs(float(said[2]) - rate(mix) / rate(alone)) < 0.001, (said[0], rows)
PYTHON

# ---- Several batches, several mixes, all together ----------------------------------------------------

bench 0 --devices $pair "${small[@]}" --repeat 1 --best-batch --overlap off --augment crop:2,flip,rotate:9,jitter:0.5:0.25,cutmix,randaugment:1:4 \
    --seed 18446744073709551615 --json batches.json
figures batches.json
check "options that are not the default" python3 - <<'PYTHON'
import json
o = json.load(open("batches.json"))["options"]
assert o["overlap"] == "off" and o["augment"] == {"crop_padding": 2, "flip": True, "erase": 0,
                                                  "resized_crop": 0, "rotate": 9,
                                                  "jitter": [0.5, 0.25, 0, 0], "cutmix": 1, "randaugment": [1, 4]}, o
assert o["seed"] == "18446744073709551615", o
PYTHON
check "five batches of each" python3 -c '
import json
table = json.load(open("batches.json"))["table"]
for i in (0, 1):
    batches = [r["batch_size"] for r in table if r["devices"] == [i]]
    assert batches == [16, 32, 64, 128, 256], batches'
check "one of each is marked: $(cat bench.out)" test "$(grep -cE '^[01] +alone +[0-9]+\* ' bench.out)" -eq 2

three=cpu:threads=1,cpu:threads=1:throttle=2,cpu:threads=1:throttle=3
bench 0 --devices $three "${small[@]}" --repeat 1 --json three.json
figures three.json
check "every subset" python3 -c '
import json
rows = [(r["devices"], r["split"]) for r in json.load(open("three.json"))["table"]]
assert rows == [([0], "alone"), ([1], "alone"), ([2], "alone")] + [
    (s, how) for s in ([0, 1], [0, 2], [1, 2], [0, 1, 2]) for how in ("equal", "measured")], rows'
bench 0 --devices "$seven" "${small[@]}" --repeat 1 --all-only --json /dev/null
says '^0,1,2,3,4,5,6 +equal '
check "and no other mix" test "$(grep -cE '^[0-9](,[0-9])+ ' bench.out)" -eq 2
# Figures are written to whoever reads then, and who does sees them whole.
mkfifo pipe
timeout 60 cat pipe >piped.json &
bench 0 --devices $pair "${small[@]}" --repeat 1 --json pipe
wait $!
figures piped.json
bench 1 --devices $pair "${small[@]}" --repeat 1 --json pipe
check "nobody reads: $(cat bench.err)" grep -q "^dptrain: cannot write pipe: .*; start what reads it first" bench.err
says '^0,1 +measured'
[ ! -e /dev/full ] || {
    bench 1 --devices $pair "${small[@]}" --repeat 1 --json /dev/full
    check "a full disk: $(cat bench.err)" grep -q "^dptrain: cannot write /dev/full: .*[Nn]o space" bench.err
    says '^0,1 +measured'
}

# ---- Devices that fail -------------------------------------------------------------------------------

# One call fails: that run is lost, and the others are not.
if [ -n "${DPTRAIN_FAULT_INNER:-}" ]; then
    export DPTRAIN_BACKEND_PATH="$DPTRAIN_BACKEND_PATH:$DPTRAIN_TEST_FAULT_PATH"
    bench 1 --devices "faultstaged:threads=1:entry=run:fail=60,cpu:threads=1" "${small[@]}" \
        --repeat 2 --json failed.json
    check "stderr says so: $(cat bench.err)" grep -qE "^dptrain: 1 of [0-9]+ runs failed; the table says why$" bench.err
    says '^failed: .*repetition 1: device faultstaged:threads=1:'
    figures failed.json
    check "the rest went on" python3 -c '
import json
d = json.load(open("failed.json"))
assert d["complete"] is True and d["failures"] == 1
assert [r["repetitions"] for r in d["table"]].count(2) >= 2, d["table"]'

    # A device that is lost stays lost; the other is measured all the same.
    bench 1 --devices "faultstaged:threads=1:entry=run:lost=1,cpu:threads=1" "${small[@]}" \
        --repeat 1 --json lost.json
    says '^0 +alone +failed'
    says '^1 +alone +64 '
    says '^0,1 +measured +failed'
    figures lost.json
    check "no figure of the lost one" python3 -c '
import json
d = json.load(open("lost.json"))
assert d["failures"] == 3 and d["complete"] is True
assert all("lost" in r["error"] or "device" in r["error"] for r in d["runs"] if "error" in r)
assert [r["images_per_second"] is None for r in d["table"]] == [True, False, True, True]'
fi

# ---- Ctrl-C ------------------------------------------------------------------------------------------

rm -f early.json
check "an interrupt" python3 - "$DPTRAIN" <<'PYTHON'
import json, signal, subprocess, sys
process = subprocess.Popen(
    [sys.argv[1], "bench", "mix", "--devices=cpu:threads=1,cpu:threads=1", "--model=linear",
     "--dataset=synthetic:8x8x1:4:256", "--batch-size=64", "--max-time=300", "--json=early.json"],
    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
for line in process.stdout: # the head is printed in one go
    if line.startswith("runs"):
        break
process.send_signal(signal.SIGINT)
_, stderr = process.communicate(timeout=60)
assert process.returncode == 130, (process.returncode, stderr)
assert stderr.count("\n") == 1 and "ended early by signal 2" in stderr, stderr
assert json.load(open("early.json"))["complete"] is False
PYTHON
finish
