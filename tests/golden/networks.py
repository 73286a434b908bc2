"""PyTorch's networks that dptrain's checkpoints load into, and what the golden runs need besides:
the textbook's ResNet-18, torchvision's networks with their stem or pool fitted to small images, and
dropout with dptrain's random numbers.  Needs torch, torchvision and numpy."""

import numpy
import torch
import torchvision
from torch import nn


class Residual(nn.Module):
    """The textbook's block: biases in the convolutions, a plain 1x1 convolution as shortcut."""

    def __init__(self, in_channels, channels, halve):
        super().__init__()
        stride = 2 if halve else 1
        self.conv1 = nn.Conv2d(in_channels, channels, 3, padding=1, stride=stride)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(in_channels, channels, 1, stride=stride) if halve else None

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return torch.relu(y + (self.conv3(x) if self.conv3 else x))


class ResNet18D2L(nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 64, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(64)
        before = 64
        for stage, width in enumerate([64, 128, 256, 512], 1):
            first = Residual(before, width, stage > 1)
            self.add_module(f"layer{stage}", nn.Sequential(first, Residual(width, width, False)))
            before = width
        self.fc = nn.Linear(512, classes)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean(dim=(2, 3)))


def small_resnet(build, channels, classes):
    """torchvision's, with a 3x3 stem of stride 1 and no max-pool."""
    model = build(num_classes=classes)
    model.conv1 = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
    model.maxpool = nn.Identity()
    return model


def large_resnet(build, channels, classes):
    """torchvision's as it is, but for the images' channels."""
    model = build(num_classes=classes)
    if channels != 3:
        model.conv1 = nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False)
    return model


def philox(counter, key):
    """Philox4x32-10 (Salmon et al., SC 2011) over arrays of four counters and two keys."""
    c = [numpy.asarray(word, dtype=numpy.uint64) for word in numpy.broadcast_arrays(*counter)]
    k = [numpy.uint64(word) for word in key]
    low, shift = numpy.uint64(0xFFFFFFFF), numpy.uint64(32)
    for _ in range(10):
        p0, p1 = numpy.uint64(0xD2511F53) * c[0], numpy.uint64(0xCD9E8D57) * c[2]
        c = [(p1 >> shift) ^ c[1] ^ k[0], p1 & low, (p0 >> shift) ^ c[3] ^ k[1], p0 & low]
        k = [(k[0] + numpy.uint64(0x9E3779B9)) & low, (k[1] + numpy.uint64(0xBB67AE85)) & low]
    return c


class KeyedDropout(nn.Module):
    """Dropout by dptrain's definition (core/backend/op_list.h, DROPOUT): whether an element is kept is a
    function of seed, epoch, sample, element and layer.  `samples` and `epoch` are set before each
    forward; `stream` numbers the dropout layers from 1."""

    def __init__(self, p, seed, stream):
        super().__init__()
        self.p, self.seed, self.stream = p, seed, stream
        self.samples, self.epoch = None, None

    def forward(self, x):
        if not self.training:
            return x
        element = numpy.arange(x[0].numel())
        sample = numpy.asarray(self.samples)[:, None]
        words = philox((element // 4, sample, self.epoch, self.stream),
                       (self.seed & 0xFFFFFFFF, self.seed >> 32))
        word = numpy.choose(element % 4, words)
        kept = (word >> numpy.uint64(8)).astype(numpy.float64) * 2.0**-24 >= self.p
        return x * torch.from_numpy(kept.reshape(x.shape)).to(x.dtype) / (1 - self.p)


def small_vgg11(height, width, channels, classes, seed):
    """torchvision's, without the adaptive pool to 7x7, and with keyed dropout."""
    model = torchvision.models.vgg11(num_classes=classes)
    model.features[0] = nn.Conv2d(channels, 64, 3, padding=1)
    model.avgpool = nn.Identity()
    model.classifier[0] = nn.Linear(512 * (height // 32) * (width // 32), 4096)
    model.classifier[2] = KeyedDropout(0.5, seed, 1)
    model.classifier[5] = KeyedDropout(0.5, seed, 2)
    return model


def create(name, height, width, channels, classes, seed=0):
    """The network that `dptrain --model NAME` trains, with the names of its checkpoints."""
    if name == "resnet18-d2l":
        return ResNet18D2L(channels, classes)
    if name == "vgg11":
        return small_vgg11(height, width, channels, classes, seed)
    if name.endswith("-imagenet"):
        build = getattr(torchvision.models, name.removesuffix("-imagenet"))
        return large_resnet(build, channels, classes)
    return small_resnet(getattr(torchvision.models, name), channels, classes)
