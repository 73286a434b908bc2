#!/usr/bin/env python3
"""Reads a folder of pictures of 500x375 into memory, in dptrain and in PyTorch: see bench/decoding.sh.

dptrain opens the folder as images of the pictures' own size, so that nothing is scaled.  The peer's pictures become
uint8 tensors (3, 375, 500).  It is tried in both ways that use all cores, and the faster one counts: a DataLoader with
a worker for each core, which are started before the clock is, and a pool of threads in one process.
"""
import argparse
import concurrent.futures
import os
import statistics
import subprocess
import sys
import tempfile
import time

HEIGHT, WIDTH, CLASSES = 375, 500, 2
# Each format: the end of the files' names, how Pillow saves them, whether torchvision decodes them.
FORMATS = {
    "JPEG": (".jpg", {"quality": 90}, True),
    "JPEG, progressive": (".jpg", {"quality": 90, "progressive": True}, True),
    "PNG": (".png", {}, True),
    "WebP": (".webp", {"quality": 80}, True),
    "WebP, lossless": (".webp", {"lossless": True}, True),
    "GIF": (".gif", {}, True),
    "BMP": (".bmp", {}, False),
    "PPM": (".ppm", {}, False),
    "TIFF": (".tif", {}, False),
    "TIFF, LZW": (".tif", {"compression": "tiff_lzw"}, False),
}
LEAST = {"JPEG": 1.0, "JPEG, progressive": 1.0}  # of the peer's speed, with --check
LEAST_OF_OTHERS = 0.8


def make_pictures(folder, form, count):
    """Smooth shapes with some noise, which compress about as well as photos do."""
    import numpy
    from PIL import Image
    end, options, _ = FORMATS[form]
    random = numpy.random.default_rng(1)
    for i in range(count):
        few = Image.fromarray(random.integers(0, 255, (24, 32, 3), dtype=numpy.uint8))
        smooth = numpy.asarray(few.resize((WIDTH, HEIGHT), Image.BICUBIC)).astype(int)
        noise = random.normal(0, 4, (HEIGHT, WIDTH, 1)).round().astype(int)
        image = Image.fromarray(numpy.clip(smooth + noise, 0, 255).astype(numpy.uint8))
        for part in ("train", "test")[: 2 if i < CLASSES else 1]:
            path = os.path.join(folder, part, f"class{i % CLASSES}")
            os.makedirs(path, exist_ok=True)
            image.save(os.path.join(path, f"{i}{end}"), **options)


def paths_of(folder):
    train = os.path.join(folder, "train")
    return sorted(os.path.join(train, c, name) for c in os.listdir(train) for name in os.listdir(os.path.join(train, c)))


def decoder(by_torchvision):
    import numpy
    import torch
    from PIL import Image
    from torchvision.io import ImageReadMode, decode_image, read_file

    def decode_by_torchvision(path):
        image = decode_image(read_file(path), ImageReadMode.RGB)
        return image[0] if image.dim() == 4 else image  # a GIF has frames

    def decode_by_pillow(path):
        with Image.open(path) as image:
            return torch.from_numpy(numpy.array(image.convert("RGB"))).permute(2, 0, 1)

    return decode_by_torchvision if by_torchvision else decode_by_pillow


class Pictures:
    """A data set of torch.utils.data."""

    def __init__(self, paths, decode):
        self.paths, self.decode = paths, decode

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        return self.decode(self.paths[i])


def time_workers(paths, decode, args):
    import torch
    loader = torch.utils.data.DataLoader(Pictures(paths, decode), batch_size=32, num_workers=args.threads,
                                         persistent_workers=True)
    seconds = []
    for _ in range(args.runs + 1):
        start = time.perf_counter()
        count = sum(len(batch) for batch in loader)
        seconds.append(time.perf_counter() - start)
        assert count == len(paths)
    return seconds[1:]  # the first one starts the workers


def time_threads(paths, decode, args):
    seconds = []
    with concurrent.futures.ThreadPoolExecutor(args.threads) as pool:
        for _ in range(args.runs + 1):
            start = time.perf_counter()
            images = list(pool.map(decode, paths))
            seconds.append(time.perf_counter() - start)
            assert len(images) == len(paths)
    return seconds[1:]


def time_dptrain(folder, count, args):
    command = [args.program, f"folder:{HEIGHT}x{WIDTH}", folder, str(args.runs + 1)]
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    runs = [line.split() for line in out.splitlines()]
    assert all(int(n) == count for n, _ in runs)
    return [float(seconds) for _, seconds in runs[1:]]


def measure(form, args):
    """Pictures a second of dptrain, of workers, of threads: medians over all turns."""
    seconds = ([], [], [])
    with tempfile.TemporaryDirectory() as folder:
        make_pictures(folder, form, args.pictures)
        paths, decode = paths_of(folder), decoder(FORMATS[form][2])
        for _ in range(args.turns):
            seconds[0].extend(time_dptrain(folder, len(paths), args))
            seconds[1].extend(time_workers(paths, decode, args))
            seconds[2].extend(time_threads(paths, decode, args))
    return [args.pictures / statistics.median(s) for s in seconds]


def main():
    parser = argparse.ArgumentParser(prog="bench/decoding.sh", description=__doc__)
    parser.add_argument("--program", help=argparse.SUPPRESS)
    parser.add_argument("--pictures", type=int, default=256, help="of a format (256)")
    parser.add_argument("--runs", type=int, default=2, help="readings of the folder in a turn (2)")
    parser.add_argument("--turns", type=int, default=3, help="turns of dptrain, workers, threads (3)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--check", action="store_true", help="fail where dptrain is too slow")
    parser.add_argument("formats", nargs="*", default=list(FORMATS), help=", ".join(FORMATS))
    args = parser.parse_args()
    if args.pictures < 2 * CLASSES or min(args.runs, args.turns, args.threads) < 1:
        parser.error(f"--pictures must be at least {2 * CLASSES}, and the others at least 1")
    for form in args.formats:
        if form not in FORMATS:
            parser.error(f"there is no format {form}")
    import PIL
    import torch
    import torchvision
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:args.threads])  # dptrain inherits it
    torch.set_num_threads(1)
    print(f"{args.pictures} pictures of {WIDTH}x{HEIGHT}, {args.threads} threads, torch {torch.__version__}, torchvision "
          f"{torchvision.__version__}, Pillow {PIL.__version__}\n\n"
          "| format | peer | dptrain, pictures/s | peer's workers | peer's threads | ratio |\n|---|---|--:|--:|--:|--:|")
    slow = []
    for form in args.formats:
        ours, workers, threads = measure(form, args)
        ratio = ours / max(workers, threads)
        print(f"| {form} | {'torchvision' if FORMATS[form][2] else 'Pillow'} | {ours:.0f} | {workers:.0f} | {threads:.0f} "
              f"| **{ratio:.2f}** |", flush=True)
        if ratio < LEAST.get(form, LEAST_OF_OTHERS):
            slow.append(form)
    if args.check and slow:
        sys.exit("too slow: " + "; ".join(slow))


if __name__ == "__main__":
    main()
