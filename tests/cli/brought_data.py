"""Makes files as authors of data sets wrote them: idx FOLDER FIRST CLASSES, emnist FOLDER SPLIT, cifar100 FOLDER.
Uses the standard library only."""
import gzip
import os
import random
import struct
import sys

HEIGHT, WIDTH = 6, 4


def image(label, i):
    """Bytes of a picture whose row tells the label."""
    random.seed(100 * label + i)
    return bytes(random.randrange(60) + (180 if y == label % HEIGHT else 0) for y in range(HEIGHT) for _ in range(WIDTH))


def transposed(pixels):
    return bytes(pixels[y * WIDTH + x] for x in range(WIDTH) for y in range(HEIGHT))


def write_idx(path, shape, values, opener=open):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with opener(path, "wb") as out:
        out.write(bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + values)


def idx(folder, first, classes):
    first, classes = int(first), int(classes)
    for part, each in (("train", 3), ("t10k", 2)):
        labels = [i % classes for i in range(each * classes)]
        pixels = b"".join(image(label, i) for i, label in enumerate(labels))
        write_idx(f"{folder}/{part}-images-idx3-ubyte", (len(labels), HEIGHT, WIDTH), pixels)
        write_idx(f"{folder}/{part}-labels-idx1-ubyte", (len(labels),), bytes(first + label for label in labels))


def emnist(folder, split):
    for part in "train", "test":
        name = f"{folder}/gzip/emnist-{split}-{part}"
        pixels = b"".join(transposed(image(label, 0)) for label in range(1, 27))
        write_idx(f"{name}-images-idx3-ubyte.gz", (26, WIDTH, HEIGHT), pixels, gzip.open)
        write_idx(f"{name}-labels-idx1-ubyte.gz", (26,), bytes(range(1, 27)), gzip.open)
    with open(f"{folder}/upright.pgm", "wb") as out:
        out.write(b"P5 %d %d 255\n" % (WIDTH, HEIGHT) + image(1, 0))


def cifar100(folder):
    os.makedirs(folder, exist_ok=True)
    for part, count in (("train", 4), ("test", 2)):
        with open(f"{folder}/{part}.bin", "wb") as out:
            for i in range(count):
                out.write(bytes([4 * i, 20 * i]) + bytes((7 * i + k) % 256 for k in range(3072)))
    for kind, count in (("fine", 100), ("coarse", 20)):
        with open(f"{folder}/{kind}_label_names.txt", "w") as out:
            out.writelines(f"{kind} {i}\n" for i in range(count))


{"idx": idx, "emnist": emnist, "cifar100": cifar100}[sys.argv[1]](*sys.argv[2:])
