#!/usr/bin/env bash
# --report: the HTML file says what the log and dptrain predict say, whatever a training comes to, and a
# browser shows it in wide and narrow windows, bright and dark.
. "$SRC/tests/cli/kit.bash"
need_python

rm -rf ./*
cat >page.py <<'PYTHON'
"""The elements of a report."""
import html.parser, re

class Page(html.parser.HTMLParser):
    VOID = {"meta", "img"}

    def __init__(self, path):
        super().__init__()
        self.source = open(path, encoding="utf-8").read()
        self.stack, self.tags, self.text, self.attributes = [], [], [], []
        self.feed(self.source)
        assert not self.stack, self.stack
        self.text = " ".join(" ".join(self.text).split())

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *a) for a in attributes]
        if tag not in self.VOID and not self.get_starttag_text().endswith("/>"):
            self.stack.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *a) for a in attributes]

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag, (tag, self.getpos())

    def handle_data(self, data):
        if self.stack and self.stack[-1] != "style":
            self.text.append(data)

    def check_closed(self):
        """Nothing is loaded and nothing runs."""
        for tag, name, value in self.attributes:
            assert tag not in ("script", "link", "iframe", "object", "base", "a"), tag
            assert not name.startswith("on") and name not in ("href", "srcset", "action"), name
            if name == "src":
                assert tag == "img" and value.startswith("data:image/png;base64,")
        assert not re.search(r"url\(|@import|@font-face", self.source)
        return self
PYTHON
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$PWD

# ---- What it says ---------------------------------------------------------------------------------

# Images that are not easy to tell apart.
python3 - <<'PYTHON'
import random, struct
random.seed(3)
for part, n in ("train", 600), ("t10k", 150):
    labels = [random.randrange(4) for _ in range(n)]
    images = bytearray()
    for label in labels:
        for y in range(12):
            for x in range(10):
                mean = 90 + 25 * ((x // 3 + y // 3 * label) % 2)
                images.append(min(255, max(0, int(random.gauss(mean, 70)))))
    with open(f"{part}-images-idx3-ubyte", "wb") as file:
        file.write(struct.pack(">IIII", 0x803, n, 12, 10) + images)
    with open(f"{part}-labels-idx1-ubyte", "wb") as file:
        file.write(struct.pack(">II", 0x801, n) + bytes(labels))
PYTHON
task=(--dataset idx --data . --model mlp --batch-size 50 --devices cpu:threads=1,cpu:threads=1 --lr 0.02)
train "${task[@]}" --epochs 4 --validation 0.1 --report run.html --checkpoint run --log run.jsonl
check "the file is named" grep -q 'wrote .*run.html' train.out
"$DPTRAIN" predict --checkpoint run --top 4 t10k-images-idx3-ubyte >predicted.txt
check "what predict says" python3 - <<'PYTHON'
import json, re, struct
from page import Page
page = Page("run.html").check_closed()
labels = open("t10k-labels-idx1-ubyte", "rb").read()[8:]
rows = [dict((c.removeprefix("class "), float(p)) for c, p in (e.rsplit(" ", 1) for e in line.split(": ", 1)[1].split(", ")))
        for line in open("predicted.txt")]
assert len(rows) == len(labels) == 150
matrix = [[0] * 4 for _ in range(4)]
for label, row in zip(labels, rows):
    matrix[label][int(max(row, key=row.get))] += 1
shown = re.findall(r'title="(\d) taken for (\d): (\d+), ', page.source)
assert len(shown) == 16
for i, k, n in shown:
    assert matrix[int(i)][int(k)] == int(n), (i, k, n, matrix)
hits = sum(matrix[i][i] for i in range(4))
assert 0 < hits < 150  # or there was nothing to tell
assert f"Of 150 samples of the test data {hits} are taken for their class" in page.text
for i in range(4):
    guessed, samples = sum(m[i] for m in matrix), sum(matrix[i])
    precision, recall = matrix[i][i] / max(guessed, 1), matrix[i][i] / samples
    assert f"{i} {samples} " + (f"{precision:.3f}" if guessed else "–") + f" {recall:.3f} " in page.text
worst = re.findall(r'<b>(\d)</b><span>taken for (\d) [\d.]+ %</span><span class="note">its class '
                   r'([\d.]+) %, loss ([\d.]+), sample (\d+)<', page.source)
assert len(worst) == 24, len(worst)
for label, guess, percent, loss, index in worst:
    row = rows[int(index)]
    assert labels[int(index)] == int(label) and abs(row[guess] - max(row.values())) < 2e-4
    assert abs(row[label] - float(percent) / 100) < 6e-4
least = sorted(row[str(label)] for label, row in zip(labels, rows))[:24]
assert max(abs(float(w[2]) / 100 - p) for w, p in zip(worst, least)) < 6e-4
events = [json.loads(line) for line in open("run.jsonl")]
done = events[-1]
assert f"test accuracy {done['test_accuracy']:.4f}" in page.text
assert f"Training came to its end after step {done['steps']}." in page.text
for e in events:
    if e["event"] == "epoch":
        figures = [e[f"{p}_{w}"] for w in ("loss", "accuracy") for p in ("train", "validation", "test")]
        assert f"epoch {e['epoch']} " + " ".join(f"{v:.4f}" for v in figures) in page.text, e
first = next(e for e in events if e["event"] == "step")
assert any(n == "aria-label" and v.startswith(f"Loss of each step: {first['loss']:.4f} at step 1,")
           for _, n, v in page.attributes)
samples = [sum(s) for s in zip(*(e["shards"] for e in events if e["event"] == "step"))]
for n in samples:
    share = 100 * n / sum(samples)  # with two decimals it may be rounded up or down
    assert any(f"cpu:threads=1 {share + d:.1f} %" in page.text for d in (-1e-9, 1e-9)), share
PYTHON
check "the command" grep -q -- 'dptrain train --dataset idx --data . --model mlp .*--report run.html' run.html
check "thumbnails" python3 - <<'PYTHON'
import base64, re, struct, zlib
from page import Page
images = open("t10k-images-idx3-ubyte", "rb").read()[16:]
found = re.findall(r'<img src="data:image/png;base64,([^"]+)" alt="sample (\d+), ', Page("run.html").source)
assert len(found) == 24
for text, index in found:
    png, at, data = base64.b64decode(text), 8, b""
    while at < len(png):
        n, kind = struct.unpack(">I4s", png[at:at + 8])
        assert zlib.crc32(png[at + 4:at + 8 + n]) == struct.unpack(">I", png[at + 8 + n:at + 12 + n])[0]
        data += png[at + 8:at + 8 + n] if kind == b"IDAT" else b""
        at += 12 + n
    rows = zlib.decompress(data)
    pixels = b"".join(rows[11 * y + 1:11 * y + 11] for y in range(12))
    assert pixels == images[120 * int(index):120 * int(index) + 120]
PYTHON

# ---- However training ends ------------------------------------------------------------------------

# says FILE TEXT
says() {
    check "$1 says: $2" python3 -c 'import sys; from page import Page
assert sys.argv[2] in Page(sys.argv[1]).check_closed().text' "$1" "$2"
}

refuse 1 "not finite" "${task[@]}" --quiet --lr 1000 --epochs 9 --report failed.html
says failed.html "Training failed after step"
says failed.html "Training was ended before the samples of an epoch were looked at"
"$DPTRAIN" train "${task[@]}" --quiet --max-time 60 --report stopped.html --log stopped.jsonl 2>stopped.err &
await stopped.jsonl
for ((i = 0; i < 300; i++)); do
    # A step of the second epoch: the samples of the first epoch have been looked at.
    if grep -q '"event":"step","step":[0-9]*,"epoch":2,' stopped.jsonl; then break; fi
    sleep 0.1
done
kill -TERM $!
wait $!
check "stopped: status $?" grep -q "ended early by signal 15" stopped.err
says stopped.html "Training was ended early, after step"
check "stopped: the classes are those of an epoch, named if steps follow it" python3 - <<'PYTHON'
import json, re
from page import Page
page = Page("stopped.html").check_closed()
events = [json.loads(line) for line in open("stopped.jsonl")]
steps = [e for e in events if e["event"] == "step"]
epochs = {e["epoch"]: e for e in events if e["event"] == "epoch"}
named, hits = re.search(r"(?:These are the classes of the model after epoch (\d+)\. )?"
                        r"Of 150 samples of the test data (\d+) are taken", page.text).groups()
# The signal may come while the samples of the last epoch are looked at.
looked = int(named or steps[-1]["epoch"])
assert looked in sorted(epochs)[-2:], (looked, sorted(epochs))
assert round(150 * epochs[looked]["test_accuracy"]) == int(hits), (epochs[looked], hits)
assert page.tags.count("img") == 24
PYTHON
"$DPTRAIN" train --dataset synthetic:28x28x1:10:60000 --model lenet --batch-size 10 --epochs 9 --quiet \
    --devices cpu:threads=1 --report early.html --log early.jsonl 2>early.err &
await early.jsonl
for ((i = 0; i < 300; i++)); do
    if grep -q '"event":"step"' early.jsonl; then break; fi
    sleep 0.1
done
kill -TERM $!
wait $!
check "early: status $?: $(cat early.err)" grep -q "ended early by signal 15" early.err
check "early: before the end of an epoch" test "$(grep -c '"event":"epoch"' early.jsonl)" -eq 0
says early.html "Training was ended before the samples of an epoch were looked at"
train "${task[@]}" --quiet --epochs 2 --report half.html --log half.jsonl --checkpoint half
train "${task[@]}" --quiet --epochs 4 --report half.html --log half.jsonl --checkpoint half --resume
check "resumed: all steps and epochs" python3 - <<'PYTHON'
import json
from page import Page
page = Page("half.html")
events = [json.loads(line) for line in open("half.jsonl")]
steps = [e for e in events if e["event"] == "step"]
epochs = [e for e in events if e["event"] == "epoch"]
assert len(steps) == 48 and len(epochs) == 4
for name, key, digits in ("Loss of each step", "loss", 4), ("Learning rate", "lr", 8):
    words = f"{name}: {steps[0][key]:.{digits}f} at step 1, {steps[-1][key]:.{digits}f} at step 48"
    assert any(n == "aria-label" and v == words for _, n, v in page.attributes), words
for e in epochs:
    figures = [e[k] for k in ("train_loss", "test_loss", "train_accuracy", "test_accuracy")]
    assert f"epoch {e['epoch']} " + " ".join(f"{v:.4f}" for v in figures) in page.text, e
PYTHON
train "${task[@]}" --quiet --epochs 50 --validation 0.2 --patience 1 --lr 0.5 --report patience.html
train "${task[@]}" --quiet --max-time 0.3 --report timed.html
says timed.html "at its time limit"
for ((i = 0; i < 300; i++)); do echo "a line of text, $i"; done >text.txt
train --dataset text:16 --data text.txt --model gpt:1:2:16:16 --batch-size 8 --max-steps 5 --quiet \
    --devices cpu:threads=1 --report text.html
says text.html "test perplexity"
says text.html "tokens/s"
check "no classes of text" python3 -c 'from page import Page
assert "Confused classes" not in Page("text.html").text'
printf 'kept' >kept.jsonl
refuse 1 "/nowhere/report.html" "${task[@]}" --quiet --log kept.jsonl --report /nowhere/report.html
check "found before another file is touched" test "$(cat kept.jsonl)" = kept
refuse 2 "both.* is to be written twice" "${task[@]}" --quiet --log both --report both
refuse 2 "both.* is to be written twice" "${task[@]}" --quiet --report both --plot ./both
if [ -e /dev/full ]; then
    refuse 1 "cannot write /dev/full.*[Nn]o space" "${task[@]}" --quiet --max-steps 1 --report /dev/full
fi

# A lost device is in the table and among the events.
if [ -n "${DPTRAIN_TEST_FAULT_PATH-}" ]; then
    DPTRAIN_BACKEND_PATH=$DPTRAIN_BACKEND_PATH:$DPTRAIN_TEST_FAULT_PATH train --dataset synthetic:28x28x1:10:60 \
        --batch-size 12 --max-steps 12 --quiet --devices fault:threads=1:after=3:lost=5,cpu:threads=1 --report lost.html
    says lost.html "fault:threads=1:after=3:lost=5 lost"
    says lost.html "device lost , fault:threads=1:after=3:lost=5"
fi

# Pictures in colour that are read as they are needed; classes whose names are HTML.
python3 - <<'PYTHON'
import os, random, struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
def png(name, width, height, colour):
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = b"".join(b"\0" + bytes((200 if k == colour else 40) + random.randrange(50)
                                  for x in range(width) for k in range(3)) for y in range(height))
    os.makedirs(os.path.dirname(name), exist_ok=True)
    with open(name, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) +
                   chunk(b"IEND", b""))
random.seed(1)
for part, n in ("train", 8), ("test", 4):
    for colour, name in enumerate(("<script>document.title = 1<", "<img src=x onerror=alert(1)>", "\"'&amp;",
                                   "a_name_without_any_space_that_is_longer_than_the_window_of_a_telephone_is_wide")):
        for i in range(n):
            png(f"photos/{part}/{name}/{i}.png", 130, 100, colour)
PYTHON
train --dataset folder:100x130:stream --data photos --model linear --max-steps 2 --batch-size 8 --lr 0.0001 --quiet \
    --devices cpu:threads=1 --report photos.html
if ! grep -q "built without" train.err; then
    says photos.html "<script>document.title = 1<"
    check "as words alone" python3 - <<'PYTHON'
import re
from page import Page
page = Page("photos.html").check_closed()
assert page.tags.count("img") == 16 and "script" not in page.tags
assert all(value.startswith("data:") for tag, name, value in page.attributes if name == "src")
PYTHON
fi

# Several processes: the first one writes.
if mpi_ready; then
    mpi 120 -n 2 "$DPTRAIN" "${task[@]}" --quiet --epochs 2 --devices cpu:threads=1 --report two.html
    check "two processes: status $status: $(cat mpi.err)" test "$status" -eq 0
    says two.html "Of 150 samples of the test data"
fi

# ---- In a browser ---------------------------------------------------------------------------------

export PYTHONPATH=$PYTHONPATH:$SRC/tests/browser
python3 -c 'import sys, browser; sys.exit(not browser.find())' || {
    [ $failures -eq 0 ] || finish
    echo "skipped: there is no Chromium; set DPTRAIN_TEST_BROWSER"
    exit 77
}
check "in a browser" python3 - run.html failed.html text.html lost.html photos.html two.html <<'PYTHON'
import os, sys
import browser
# The contrast of every text with what is behind it, and the sizes of texts.
LOOK = """(() => {
    const parse = c => c.match(/[\\d.]+/g).map(Number);
    const linear = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const luminance = c => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
    let worst = 21, smallest = 100, n = 0, what = "";
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode());) {
        const element = node.parentElement;
        if (!node.data.trim() || !element.checkVisibility()) continue;
        let behind = element, back = [0, 0, 0, 0];
        for (; behind && back[3] === 0; behind = behind.parentElement) {
            const c = parse(getComputedStyle(behind).backgroundColor);
            back = [c[0], c[1], c[2], c.length > 3 ? c[3] : 1];
        }
        const tint = getComputedStyle(element.closest("td") || element, "::before");
        if (element.closest(".confusion td")) {  // a tint lies between the text and the page
            const c = parse(tint.backgroundColor), a = Number(tint.opacity);
            back = [0, 1, 2].map(i => a * c[i] + (1 - a) * back[i]);
        }
        const style = getComputedStyle(element);
        const a = luminance(parse(style.color)), b = luminance(back);
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        n++;
        if (ratio < worst) { worst = ratio; what = node.data; }
        smallest = Math.min(smallest, parseFloat(style.fontSize));
    }
    return {worst, smallest, n, what};
})()"""
WIDE = """[...document.querySelectorAll("body *")].filter(e => !e.closest(".scroll") && !e.closest("svg") &&
    !e.closest("thead") && e.checkVisibility() && (e.getBoundingClientRect().right > innerWidth + 0.5 ||
    e.getBoundingClientRect().left < -0.5)).map(e => e.outerHTML.slice(0, 80)).slice(0, 3)"""
with browser.Browser(browser.find()) as shown:
    n_pages, backgrounds = 0, {}
    for path in filter(os.path.exists, sys.argv[1:]):
        for width in 400, 1600:
            for scheme in "light", "dark":
                case = (path, width, scheme)
                shown.open(path, width, scheme)
                assert shown.complaints() == [], (case, shown.complaints())
                assert all(u.startswith(("file://", "data:image/png")) for u in shown.requests()), case
                assert sum(u.startswith("file://") for u in shown.requests()) == 1, case
                assert shown.evaluate("document.documentElement.scrollWidth") <= width, case
                assert shown.evaluate(WIDE) == [], (case, shown.evaluate(WIDE))
                title = shown.evaluate("document.title")
                assert " on " in title, (case, title)
                look = shown.evaluate(LOOK)
                assert look["n"] > 50 and look["smallest"] >= 10, (case, look)
                assert look["worst"] >= 4.5, (case, look)
                pictures = "[...document.images].every(i => i.complete && i.naturalWidth > 0)"
                assert shown.evaluate(pictures), case
                assert shown.evaluate("[...document.images].every(i => i.alt)"), case
                backgrounds[scheme] = shown.evaluate("getComputedStyle(document.body).backgroundColor")
                shown.picture(f"{path}-{width}-{scheme}.png")
                n_pages += 1
    assert n_pages >= 16 and backgrounds["light"] != backgrounds["dark"]
PYTHON
finish
