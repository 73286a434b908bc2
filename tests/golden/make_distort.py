#!/usr/bin/env python3
"""Makes tests/golden/distort.txt: what torchvision makes of two small pictures.

    make_distort.py > tests/golden/distort.txt
    make_distort.py check tests/golden/distort.txt

The second form fails if this torchvision differs from the file by more than 1 in any byte.  Needs
torch and torchvision.  A line is a picture or an operation:

    image CHANNELS HEIGHT WIDTH BYTES
    OPERATION VALUE BYTES

An operation is of the picture above it.  A value is in units of 2^-16: a factor, a part of the
circle of hues, or degrees.  Operations of RandAugment have torchvision's names, and the value is the
magnitude from 0 to 30, with its sign.  Bytes are hexadecimal, channels last.
"""

import sys

import torch
import torchvision
from torchvision.transforms import v2
from torchvision.transforms.v2 import InterpolationMode, functional

FACTORS = (0, 1, 13107, 45875, 65536, 78643, 98304, 131072)
TURNS = (-32768, -6554, -1, 0, 3277, 16384, 32768)
MAGNITUDES = (0, 3, 9, 15, 29, 30)
DEGREES = (-180, -90, -37, -15.5, 0, 0.25, 7.25, 15, 90, 131, 180)
COLOURS = {
    "brightness": (functional.adjust_brightness, FACTORS),
    "contrast": (functional.adjust_contrast, FACTORS),
    "saturation": (functional.adjust_saturation, FACTORS),
    "hue": (functional.adjust_hue, TURNS),
}


def picture(channels, height, width):
    """Half of it is noise, and the rest has few colours, greys and the extremes."""
    random = torch.Generator().manual_seed(height)
    noise = torch.randint(0, 256, (channels, height, width), generator=random)
    few = torch.randint(0, 4, (channels, height, width), generator=random) * 85
    few[:, height // 2 :] = few[:1, height // 2 :]
    return torch.where(torch.arange(width) % 2 == 0, noise, few).to(torch.uint8)


def line(word, values, image):
    numbers = " ".join(str(value) for value in values)
    return f"{word} {numbers} {bytes(image.permute(1, 2, 0).contiguous().flatten().tolist()).hex()}"


def randaugment(image):
    """The operations of RandAugment, by torchvision's own table."""
    chooser = v2.RandAugment()
    for name, (magnitudes, signed) in chooser._AUGMENTATION_SPACE.items():
        table = magnitudes(31, *image.shape[1:])
        for magnitude in (0,) if table is None else MAGNITUDES:
            if (name, magnitude) == ("Rotate", 30):
                continue  # a sine of 1/2: sources that are exactly between two pixels
            for sign in (1, -1) if signed and magnitude else (1,):
                number = 0.0 if table is None else sign * float(table[magnitude])
                made = chooser._apply_image_or_video_transform(
                    image, name, number, interpolation=InterpolationMode.NEAREST, fill={}
                )
                yield line(name, [sign * magnitude], made)


def lines():
    yield f"# torchvision {torchvision.__version__}, torch {torch.__version__}, on a CPU"
    for channels, height, width in ((3, 16, 24), (1, 9, 9)):
        image = picture(channels, height, width)
        yield line("image", image.shape, image)
        for name, (function, values) in COLOURS.items():
            for value in values:
                yield line(name, [value], function(image, value / 65536))
        for degrees in DEGREES:
            yield line("rotate", [round(degrees * 65536)], functional.rotate(image, degrees))
        yield from randaugment(image)


def check(path):
    """Returns how many bytes differ by 1 between the file and this torchvision."""
    with open(path) as file:
        kept = [text for text in file.read().splitlines() if not text.startswith("#")]
    made = [text for text in lines() if not text.startswith("#")]
    assert len(kept) == len(made) > 0
    different = 0
    for old, new in zip(kept, made):
        *what, old_bytes = old.split()
        *what_now, new_bytes = new.split()
        assert what == what_now, (what, what_now)
        pairs = list(zip(bytes.fromhex(old_bytes), bytes.fromhex(new_bytes)))
        assert len(old_bytes) == len(new_bytes) and all(abs(a - b) <= 1 for a, b in pairs), what
        different += sum(a != b for a, b in pairs)
    return different


if __name__ == "__main__":
    if sys.argv[1:2] == ["check"]:
        print(check(sys.argv[2]), "bytes differ by 1")
    else:
        print("\n".join(lines()))
