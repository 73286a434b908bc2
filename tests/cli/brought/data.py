"""Makes files as authors of data sets wrote them: idx FOLDER FIRST CLASSES, emnist FOLDER SPLIT, cifar100 FOLDER, npz FILE NAMES [CLASSES],
kuzushiji FOLDER.  Uses the standard library only."""
import gzip
import os
import random
import struct
import sys
import zipfile

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


def npy(shape, values):
    text = "{'descr': '|u1', 'fortran_order': False, 'shape': (%s,), }" % ", ".join(map(str, shape))
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode() + values


def arrays(each, classes, first=0, several=False):
    """Images, and labels (n, 1), or (n, classes) of 0 and 1 where each class and the next one are true."""
    labels = [i % classes for i in range(each * classes)]
    pixels = b"".join(image(label, i) for i, label in enumerate(labels))
    rows = [bytes(k in (label, (label + 1) % classes) for k in range(classes)) if several else bytes([first + label]) for label in labels]
    return npy((len(labels), HEIGHT, WIDTH), pixels), npy((len(labels), len(rows[0])), b"".join(rows))


def npz(path, names, classes=3):
    """Names of the arrays in the file: those of MedMNIST, with one label or several, or those of Keras."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for part, each in (("train", 4), ("val", 1), ("test", 2)):
            x, y = arrays(each, int(classes), several=names == "several")
            if names == "keras" and part == "val":
                continue
            out.writestr(f"x_{part}.npy" if names == "keras" else f"{part}_images.npy", x)
            out.writestr(f"y_{part}.npy" if names == "keras" else f"{part}_labels.npy", y)


def kuzushiji(folder):
    """A file for each array, as of Kuzushiji-49."""
    os.makedirs(folder, exist_ok=True)
    for part, each in (("train", 4), ("test", 2)):
        for kind, array in zip(("imgs", "labels"), arrays(each, 3)):
            with zipfile.ZipFile(f"{folder}/k49-{part}-{kind}.npz", "w") as out:
                out.writestr("arr_0.npy", array)


{"npz": npz, "kuzushiji": kuzushiji, "idx": idx, "emnist": emnist, "cifar100": cifar100}[sys.argv[1]](*sys.argv[2:])
