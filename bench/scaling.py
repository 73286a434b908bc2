"""A cost model of a training step over several processes (docs/scaling.md).

    bench/scaling.py check FOLDER [--least]   the model beside what bench/scaling.sh measured into FOLDER,
                                     by medians, or by least steps where cores change their speed
    bench/scaling.py predict [OPTION...]   8 to 4 096 mixed devices; --help shows what is assumed

Times in seconds, sizes in bytes.  A step's compute C is known; a link takes alpha + beta n for n bytes.
The gradients' exchange is that of core/collective: every process owns a slice, gets the others' parts
of it, sums them, and sends it to all, so each link carries 2 (P - 1) / P of the bytes in 2 (P - 1)
messages; compressed, half the bytes.  With overlap a bucket is exchanged, one after the other, once
backward has written it; the next one may be on its way while the one before has not come back.
"""
import argparse
import json
import math
import os
import re
import statistics
import sys

# ---- The model ---------------------------------------------------------------------------------


CHUNK = 262144  # core/collective: bytes of a slice that travel at a time
VOTES = 3  # of an array's all-reduce (core/collective/reduce_arrays.c): before, with and behind it


class Link:
    """What `dptrain bench allreduce` takes for n bytes: between measured sizes a straight line, below
    them as the least, beyond them at the rate of the last two.  (One line through all would not do: a
    token bucket lets small exchanges pass faster than its rate.)

    The least is the votes, and then a message there and one back: so many delays where a line is
    long.  Votes are not the exchange's: that is what is left."""

    def __init__(self, processes, points, window):
        self.processes = processes
        self.window = window  # chunks in flight at the same time
        self.points = sorted(points)
        self.alpha = self.points[0][1]
        self.message = self.alpha / (VOTES + 2)

    def turns(self, n):
        """For how many chunks, one behind the other, n bytes have to wait."""
        return math.ceil(n / self.processes / CHUNK) / self.window

    def exchange(self, n, part=1):
        """Of n bytes, of which this part travels: in as many chunks as if all did, each of which keeps
        its place until it has been there and back."""
        return max(self.measured(part * n) - VOTES * self.message,
                   2 * self.message * math.ceil(self.turns(n)))

    def busy(self, n, total, part=1):
        """How long that, in a row of exchanges of `total` bytes, keeps the next one from being sent: at
        the rate of the row, through which no token bucket saves anything up."""
        return max((self.measured(part * total) - self.alpha) * n / total,
                   2 * self.message * self.turns(n))

    def measured(self, n):
        if n <= self.points[0][0]:
            return self.alpha
        for (x0, y0), (x1, y1) in zip(self.points, self.points[1:]):
            if n <= x1:
                break
        return y0 + (y1 - y0) * (n - x0) / (x1 - x0)


# core/graph/buckets.c: bytes of the least slice, of all weights, rows of a slice
LEAST, PARTS, LEAST_ROWS = 262144, 8, 128


def slices(layer, total):
    """The parts of its parameters in which a layer's gradient is written, as core/graph/buckets.c
    has it: of a linear layer larger than a bucket, rows."""
    parameters, macs, rows = layer
    if not rows or 4 * macs < total / PARTS:
        return [1.0]
    n_slices = 4 * macs // int(max(LEAST, total / PARTS)) + 1
    each = max(-(-rows // n_slices), -(-LEAST * rows // (4 * macs)))
    each = -(-each // LEAST_ROWS) * LEAST_ROWS
    out, end = [], rows
    while end > 0:
        begin = (end - each) // LEAST_ROWS * LEAST_ROWS if end > each else 0
        out.append((end - begin) / rows)
        end = begin
    return out


def ready(layers, compute, sliced=True):
    """When backward has written gradients: [(seconds, bytes, whether that is a bucket by itself)], last
    layer first.

    layers: (parameters, multiply-adds, rows of a linear layer's weights or 0) in forward order.
    Forward takes one pass over the multiply-adds, backward one for the gradients of parameters and
    then one for that of the input, which the first layer does not pass on."""
    total = 4 * sum(parameters for parameters, _, _ in layers)
    first = next(i for i, layer in enumerate(layers) if layer[0])
    forward = sum(macs for _, macs, _ in layers)
    work = 3 * forward - sum(macs for _, macs, _ in layers[:first + 1])
    done, out = forward, []
    for i in reversed(range(len(layers))):
        parameters, macs, _ = layers[i]
        parts = slices(layers[i], total) if sliced else [1.0]
        for part in parts if parameters else [1.0]:
            done += part * macs
            if parameters:
                out.append((compute * done / work, 4 * part * parameters, len(parts) > 1))
        if i > first:
            done += macs
    return out


def buckets(events, first, others):
    """Gradients in the order in which they are written, cut as core/graph/buckets.c does: the first
    bucket holds at least `first` bytes, each of the others `others`, but no more than what is still
    to be written; slices as many as come nearest to it.  What is left goes at the end."""
    left = sum(n_bytes for _, n_bytes, _ in events)
    out, n = [], 0
    for seconds, n_bytes, is_slice in events:
        n, left = n + n_bytes, left - n_bytes
        enough = max(first, min(left, others) if out else 0) - (n_bytes / 2 if is_slice else 0)
        if left > 0.5 and n >= enough:
            out.append((seconds, n))
            n = 0
    return out + [(events[-1][0], n)]


def with_gathers(schedule, compute, gathers):
    """The same where statistics of batch-norm are exchanged on the way, half of them in forward, which
    takes a third of computing, and half in backward: nothing is computed meanwhile, but buckets that
    are ready travel."""
    forward = compute / 3
    return [(when + gathers / 2 * (1 + (when - forward) / (compute - forward)), n_bytes)
            for when, n_bytes in schedule]


def overlapped(schedule, compute, exchange, busy, work=0.0):
    """The end of a step whose buckets (when ready, bytes) are exchanged in order while backward goes
    on.  busy(n): how long the next bucket has to wait for one of n bytes to be sent.  `work`: what the
    exchange takes from the cores that compute."""
    free = end = 0.0
    for when, n_bytes in schedule:
        begin = max(free, when)
        free = begin + busy(n_bytes)
        end = begin + exchange(n_bytes)
    return max(end, compute + work)


def modelled(schedules, compute, gathers, link, work):
    """Steps without overlap, with it, and compressed, whose buckets are schedules["on"] and ["bf16"].
    All vote before the last bucket is sent, and tell each other at the end what came of the step."""
    total, vote = sum(n_bytes for _, n_bytes in schedules["on"]), link.message
    compute += gathers
    out = {"off": compute + vote + link.exchange(total) + vote}
    for how, part in ("on", 1), ("bf16", 0.5):
        schedule = with_gathers(schedules[how], compute - gathers, gathers)
        schedule[-1] = schedule[-1][0] + vote, schedule[-1][1]
        out[how] = vote + overlapped(schedule, compute + vote, lambda n: link.exchange(n, part),
                                     lambda n: link.busy(n, total, part), work)
    return out


# ---- Against measurements ----------------------------------------------------------------------


def layers_of(path):
    """The table that `dptrain plan` prints."""
    out = []
    for line in open(path):
        fields = line.split()
        if len(fields) == 5 and re.fullmatch(r"\d+x\d+x\d+", fields[2]):
            rows = int(fields[2].split("x")[2]) if fields[1] == "linear" else 0
            out.append((int(fields[3]), int(fields[4]), rows))
    return out


def gathers_of(path):
    """Exchanges of batch-norm's statistics: one forward and one backward a layer, but that of a
    shortcut and the one that it is added to come to one."""
    layers = [line for line in open(path)
              if "batchnorm" in line or "batch-norm" in line or " batch_norm" in line]
    return 2 * len(layers) - sum("downsample" in line for line in layers)


def steps_of(path, typical):
    """Seconds of a typical step (a function of a list), without the first two."""
    seconds = [e["seconds"] for e in map(json.loads, open(path)) if e["event"] == "step"]
    return typical(seconds[2:] or seconds)


def sizes_of(paths, total):
    """Of the first bucket and of the others, as these runs had them: what they measured, and by
    their run events chose; of logs that do not tell, LEAST and an eighth of all."""
    runs = [json.loads(open(path).readline()).get("exchange", {}) for path in paths]
    return (statistics.median(run.get("first_bucket_bytes", LEAST) for run in runs),
            statistics.median(run.get("bucket_bytes", total / PARTS) for run in runs))


def link_of(folder, n, word):
    measured = json.load(open(f"{folder}/link-{n}-{word}.json"))
    return Link(n, [(row["bytes"], row["seconds"]) for row in measured["table"]], measured["window"])


def check(folder, typical):
    ways = {"off": "overlap off", "on": "overlap on", "bf16": "on, bf16"}
    names = sorted({re.sub(r"-\d+-(off|on|bf16)$", "", f) for f in os.listdir(folder)
                    if f.endswith(("-on", "-off", "-bf16"))})
    print("| processes | link | model, batch | compute | exchange | "
          + " | ".join(f"{words}: measured, model | error" for words in ways.values())
          + " | on / max(compute, exchange) | on / bf16 |")
    print("|--:|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    worst = 0.0
    for name in names:
        n, word, model, batch, _ = name.split(":")
        n = int(n)
        rounds = sorted({int(f[len(name) + 1:].split("-")[0]) for f in os.listdir(folder)
                         if f.startswith(name + "-")})
        files = [f"{folder}/{name}-{r}" for r in rounds]
        compute = typical([max(steps_of(f"{f}-alone.{i}", typical) for i in range(n))
                           for f in files])
        measured = {how: typical([steps_of(f"{f}-{how}", typical) for f in files]) for how in ways}
        layers = layers_of(f"{folder}/{model}.plan")
        total = 4 * sum(parameters for parameters, _, _ in layers)
        link, copying = link_of(folder, n, word), link_of(folder, n, "none")
        gathers = gathers_of(f"{folder}/{model}.plan") * link.message
        exchange = link.exchange(total)
        schedules = {how: buckets(ready(layers, compute),
                                  *sizes_of([f"{f}-{how}" for f in files], total))
                     for how in ("on", "bf16")}
        told = modelled(schedules, compute, gathers, link, copying.exchange(total))
        error = {how: told[how] / measured[how] - 1 for how in measured}
        worst = max(worst, *map(abs, error.values()))
        print(f"| {n} | {word} | {model}, {batch} | {1e3 * compute:.0f} | {1e3 * exchange:.0f} | "
              + " | ".join(f"{1e3 * measured[h]:.0f}, {1e3 * told[h]:.0f} | {100 * error[h]:+.0f} %"
                           for h in ways)
              + f" | {measured['on'] / max(compute, exchange):.2f}"
              + f" | {measured['on'] / measured['bf16']:.2f} |")
    print(f"\nMilliseconds; the largest error is {100 * worst:.0f} %.")


# ---- Predictions -------------------------------------------------------------------------------

# Devices: seconds of a step's fixed work, images per second (ResNet-18 on 28x28 images in float32).
# The first was measured (bench/results/resnet18.md); the others are round figures for their class.
DEVICES = {
    "2 CPU cores": (0.005, 80),
    "32 CPU cores": (0.010, 1200),
    "small GPU": (0.004, 3000),
    "large GPU": (0.002, 20000),
}
# Links between hosts: alpha of a message, bytes per second.
LINKS = {"1 Gbit/s": (50e-6, 117e6), "10 Gbit/s": (30e-6, 1.17e9), "100 Gbit/s": (5e-6, 11.7e9)}


def direct(p, alpha, rate):
    """As core/collective does it: every process with every other."""
    return lambda n: 2 * (p - 1) * (alpha + n / p / rate)


def halving(p, alpha, rate):
    """Recursive halving and doubling, as MPI and NCCL have it: the same bytes in 2 log2 P messages."""
    return lambda n: 2 * math.ceil(math.log2(p)) * alpha + 2 * (p - 1) / p * n / rate


def share_time(mix, batch):
    """The time in which all end together: sum of (t - a) rate = batch, over those that take part."""
    mix = sorted(mix)
    while True:
        rate = sum(r for _, r in mix)
        t = (batch + sum(a * r for a, r in mix)) / rate
        if t > mix[-1][0]:
            return t
        mix.pop()


# Bytes of a parameter in a round of local steps (core/train/rounds/rounds.h): the parameter itself,
# and each number that the optimizer keeps for it.
ROUND_BYTES = {"none": (4, 4), "bf16": (2, 2), "int8": (1 + 2 / 256, 2)}


def round_bytes(options, delayed):
    """What a round exchanges of each parameter.  With an outer delay the optimizer's state is
    exchanged once an epoch, which is not counted."""
    parameter, state = ROUND_BYTES[options.compress]
    return parameter + (0 if delayed else (options.buffers - 1) * state)


def local_step(compute, over, n_bytes, steps, delay=0, fragments=1):
    """A step of which so many are taken before n_bytes are exchanged, between two votes.  What came
    of a step is told while the next one computes.  With a delay the exchange runs beside so many
    steps, which wait for what is left of it, and there are votes at both of its ends.  So it is for
    each fragment of the bytes."""
    step, votes = max(compute, over(0) / 2), over(0) * (2 if delay else 1)
    return step + fragments * (max(0, over(n_bytes / fragments) - delay * step) + votes) / steps


def low_rank_step(compute, gathers, over, n_bytes):
    """A step whose gradients travel as factors behind backward: of the first sum the second one, of about
    as many bytes, is made."""
    return compute + gathers + over(0) + over(n_bytes)


def hiding_delay(options, compute, over, n_bytes):
    """The steps beside which a fragment is exchanged: as given, or the least that hide the exchange."""
    if options.outer_delay is not None:
        return options.outer_delay
    least = math.ceil(over(n_bytes / options.outer_fragments) / max(compute, over(0) / 2))
    return min(least, options.local_steps // options.outer_fragments - 1)


def predict(arguments):
    parser = argparse.ArgumentParser(prog="bench/scaling.py predict")
    parser.add_argument("--parameters", type=float, default=11.17e6, help="of the model")
    parser.add_argument("--batch", type=int, default=256, help="samples a device of the mix, on average")
    parser.add_argument("--per-process", type=int, default=4, help="devices of a host, in one process")
    parser.add_argument("--gathers", type=int, default=37,
                        help="exchanges of batch-norm's statistics in a step; 0 for --batchnorm local")
    parser.add_argument("--low-rank", type=float, default=135,
                        help="of --compress lowrank: gradients travel in this part of their bytes, which dptrain plan "
                        "tells; 135 is rank 4 of ResNet-18")
    parser.add_argument("--local-steps", type=int, default=100, help="of a round")
    parser.add_argument("--buffers", type=int, default=2,
                        help="exchanged at the end of a round: parameters, and what the optimizer keeps: "
                        "1 for plain SGD, 2 with momentum, 3 for AdamW")
    parser.add_argument("--compress", choices=sorted(ROUND_BYTES), default="none", help="of rounds")
    parser.add_argument("--outer-delay", type=int, help="of the last column; the least that hides the exchange, below a round")
    parser.add_argument("--outer-fragments", type=int, default=1, help="of the last column")
    parser.add_argument("--rate", type=float, nargs="+", default=[],
                        help="other links than the three: Mbit/s")
    parser.add_argument("--latency", type=float, default=50e-6, help="seconds of a message of such a link")
    parser.add_argument("--devices", type=int, nargs="+", default=[8, 64, 512, 4096])
    options = parser.parse_args(arguments)
    if options.outer_fragments < 1 or options.local_steps // options.outer_fragments < 2:
        parser.error("there are at least two steps from one fragment to the next")
    if options.outer_delay is not None and not 0 <= options.outer_delay < options.local_steps // options.outer_fragments:
        parser.error("an outer delay is less than the steps of a round, or from one fragment to the next")
    links = {f"{rate:g} Mbit/s": (options.latency, rate * 1e6 / 8 * 0.94) for rate in options.rate} or LINKS
    print("Devices:", "; ".join(f"{k}: {1e3 * a:g} ms + {r} img/s" for k, (a, r) in DEVICES.items()))
    print("Links:", "; ".join(f"{k}: {1e6 * a:g} us a message" for k, (a, _) in links.items()))
    print(f"{options.per_process} devices a process, {options.gathers} exchanges of statistics a step\n")
    # Backward as ResNet-18's: three quarters of the parameters are written in the first third of it.
    profile = [(0.50, 0.55), (0.60, 0.20), (0.75, 0.19), (1.00, 0.06)]
    total = 4 * options.parameters
    ways = {"overlap off": (direct, 1, 1, False), "overlap on": (direct, 1, 1, True),
            "bf16": (direct, 0.5, 1, True), "8 accumulated": (direct, 1, 8, True),
            "halving": (halving, 1, 1, True), "all three": (halving, 0.5, 8, True)}
    print("| devices | link | batch | compute | statistics | exchange | "
          + " | ".join(f"{way}" for way in ways) + f" | low rank | {options.local_steps} local | delayed |")
    print("|--:|---|--:|--:|--:|--:|" + "--:|" * (len(ways) + 3))
    for n in options.devices:
        mix = [DEVICES[k] for k in DEVICES for _ in range(n // len(DEVICES))]
        p, batch = max(1, n // options.per_process), options.batch * n
        compute, alone = share_time(mix, batch), sum(rate for _, rate in mix)
        for link, (alpha, rate) in links.items():
            shown = []
            for exchange, part, steps, overlap in ways.values():
                gathers = options.gathers * exchange(p, alpha, rate)(0) / 2
                over = exchange(p, alpha, rate)
                schedule = [((steps - 1 + when) * compute, part * total * share)
                            for when, share in profile]
                seconds = gathers + (overlapped(schedule, steps * compute, over, over) if overlap
                                     else compute + over(total)) / steps
                shown.append(f"{1e3 * seconds:.0f} ms, {100 * batch / seconds / alone:.0f} %")
            over = direct(p, alpha, rate)
            seconds = low_rank_step(compute, options.gathers * over(0) / 2, over, total / options.low_rank)
            shown.append(f"{1e3 * seconds:.0f} ms, {100 * batch / seconds / alone:.0f} %")
            for delayed in (False, True):
                n_bytes = round_bytes(options, delayed) * options.parameters
                delay = hiding_delay(options, compute, over, n_bytes) if delayed else 0
                seconds = local_step(compute, over, n_bytes, options.local_steps, delay,
                                     options.outer_fragments if delayed else 1)
                shown.append(f"{1e3 * seconds:.0f} ms, {100 * batch / seconds / alone:.0f} %")
            print(f"| {n} | {link} | {batch} | {1e3 * compute:.0f} | "
                  f"{1e3 * options.gathers * over(0) / 2:.0f} | {1e3 * over(total):.0f} | "
                  + " | ".join(shown) + " |")
    print("\nMilliseconds of a step (a mini-batch where several are accumulated); per cent of what all "
          "devices do alone, exchanging nothing.")
    rounds = [2e-6 * round_bytes(options, delayed) * options.parameters / options.local_steps
              for delayed in (False, True)]
    print(f"Each link carries up to {2e-6 * total:.1f} MB a step in each direction, with local steps "
          f"{rounds[0]:.2f} MB, and delayed {rounds[1]:.2f} MB.")


if __name__ == "__main__":
    if sys.argv[1:2] == ["check"] and len(sys.argv) == 3:
        check(sys.argv[2], statistics.median)
    elif sys.argv[1:2] == ["check"] and sys.argv[3:] == ["--least"]:
        check(sys.argv[2], min)
    elif sys.argv[1:2] == ["predict"]:
        predict(sys.argv[2:])
    else:
        sys.exit(__doc__)
