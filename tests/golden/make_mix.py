#!/usr/bin/env python3
"""Makes tests/golden/mix.txt: what torchvision's MixUp and CutMix do for given random numbers.

    make_mix.py > tests/golden/mix.txt

Needs torch and torchvision.  A sample of zeros is mixed with a partner of ones, so that its pixels become the partner's weights:

    mixup HEIGHT WIDTH NUMBER 0 0 LAMBDA PIXELS
    cutmix HEIGHT WIDTH NUMBER COLUMN ROW LAMBDA PIXELS

NUMBER is what Beta gave.  LAMBDA is the weight of the sample's own label.  The pixels of a cutmix
are the digits 0 and 1; those of a mixup are all the same, and the line has one.
"""

from unittest import mock

import torch
import torchvision
from torchvision.transforms import v2

SIZES = ((6, 10), (9, 9), (1, 5), (32, 32))
NUMBERS = (0.0, 0.1, 0.36, 0.5, 0.75, 0.9375, 1.0)


def mixed(transform, size, number, place):
    """Returns lambda and the pixels of a sample of zeros whose partner has ones."""
    images = torch.stack([torch.ones(1, *size), torch.zeros(1, *size)])
    drawn = iter(place)
    with mock.patch.object(transform._dist, "sample", lambda shape: torch.tensor(number)), \
            mock.patch("torch.randint", lambda high, size: torch.tensor([next(drawn)])):
        images, labels = transform(images, torch.tensor([0, 1]))
    return float(labels[1, 1]), images[1, 0]


def lines():
    yield f"# torchvision {torchvision.__version__}, torch {torch.__version__}"
    mixup, cutmix = v2.MixUp(num_classes=2), v2.CutMix(num_classes=2)
    for height, width in SIZES:
        for number in NUMBERS:
            share, pixels = mixed(mixup, (height, width), number, ())
            assert torch.all(pixels == pixels[0, 0])
            yield f"mixup {height} {width} {number} 0 0 {share:.9g} {float(pixels[0, 0]):.9g}"
            for x, y in ((0, 0), (width - 1, height // 3), (width // 2, height // 2)):
                share, pixels = mixed(cutmix, (height, width), number, (x, y))
                digits = "".join(str(int(value)) for value in pixels.flatten())
                yield f"cutmix {height} {width} {number} {x} {y} {share:.9g} {digits}"


if __name__ == "__main__":
    print("\n".join(lines()))
