"""Pictures of three writers (Pillow, ImageMagick, libvips) in all modes, against Pillow's own pixels.

A test is skipped where Pillow or its writer is missing.  The differences that docs/data.md lists are written out here.
"""

import os
import shutil
import subprocess

import numpy as np
import pytest

import dptrain
from dptrain._library import error_of, ffi, lib, text

Image = pytest.importorskip("PIL.Image")
HEIGHT, WIDTH = 23, 37  # neither is a multiple of 8


def read(path, height=HEIGHT, width=WIDTH):
    """The image (height, width, 3) that dptrain makes of a picture of this size."""
    context = ffi.new("dpt_context **")
    assert lib.dpt_context_create(context) == 0
    shape = ffi.new("dpt_picture_shape *", {"height": height, "width": width, "channels": 3})
    pixels = np.zeros((height, width, 3), np.uint8)
    status = lib.dpt_picture_read(context[0], os.fsencode(path), shape, ffi.from_buffer("uint8_t[]", pixels))
    words = text(lib.dpt_error_message(context[0]))
    lib.dpt_context_destroy(context[0])
    if status != 0:
        raise error_of(status, words)
    return pixels


def over_black(image):
    rgba = np.asarray(image.convert("RGBA")).astype(int)
    return (rgba[..., :3] * rgba[..., 3:] + 127) // 255


def wanted(path):
    """Pillow's pixels of the first frame or page: over black where the picture is transparent, and
    16 bits scaled where Pillow clips them."""
    with Image.open(path) as image:
        if image.mode.startswith("I"):
            grey = np.asarray(image).astype(int)
            return np.repeat(((grey * 255 + 32767) // 65535)[..., None], 3, 2)
        if "A" in image.getbands() or "transparency" in image.info:
            return over_black(image)
        return np.asarray(image.convert("RGB")).astype(int)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """rgb.png, rgba.png, grey.png, few.png (16 colours): smooth colours with noise."""
    folder = tmp_path_factory.mktemp("base")
    random = np.random.default_rng(3)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    smooth = np.stack([x * 6, y * 10, 255 - x * 3 - y * 5], 2) + random.integers(-12, 12, (HEIGHT, WIDTH, 3))
    rgb = np.clip(smooth, 0, 255).astype(np.uint8)
    alpha = np.clip(x * 9 - 20, 0, 255).astype(np.uint8)
    Image.fromarray(rgb).save(folder / "rgb.png")
    Image.fromarray(np.dstack([rgb, alpha])).save(folder / "rgba.png")
    Image.fromarray(rgb).convert("L").save(folder / "grey.png")
    Image.fromarray(rgb).quantize(16).save(folder / "few.png")
    Image.fromarray(rgb[::-1]).save(folder / "other.png")
    return folder


def compare(path, most=0):
    got = read(path).astype(int)
    difference = np.abs(got - wanted(path))
    assert difference.max() <= most, f"{path}: {(difference > most).sum()} of {difference.size} values differ, " \
                                     f"by up to {difference.max()}"


# ---- Pillow ----------------------------------------------------------------------------------------

PILLOW = {
    "png": ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"],
    "jpg": ["1", "L", "RGB", "CMYK", "YCbCr"],
    "gif": ["1", "L", "P", "RGB", "RGBA"],
    "bmp": ["1", "L", "P", "RGB", "RGBA"],
    "tif": ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"],
    "webp": ["L", "LA", "P", "RGB", "RGBA"],
    "ppm": ["L", "RGB", "I;16"],
}
PILLOW_OPTIONS = {
    "png": [{}, {"optimize": True}, {"compress_level": 0}],
    "jpg": [{}, {"progressive": True}, {"subsampling": 0}, {"subsampling": 2, "quality": 30}, {"optimize": True},
            {"restart_marker_rows": 1}],
    "gif": [{}, {"interlace": 0}],
    "bmp": [{}],
    "tif": [{}, {"compression": "tiff_lzw"}, {"compression": "tiff_adobe_deflate"}, {"compression": "packbits"},
            {"big_tiff": True}],
    "webp": [{}, {"lossless": True}, {"quality": 20, "method": 6}],
    "ppm": [{}],
}


def pillow_cases():
    for end, modes in PILLOW.items():
        for mode in modes:
            for i in range(len(PILLOW_OPTIONS[end])):
                yield end, mode, i


@pytest.mark.parametrize("end,mode,i", list(pillow_cases()))
def test_pillow(base, tmp_path, end, mode, i):
    image = Image.open(base / ("rgba.png" if "A" in mode else "rgb.png"))
    if mode == "I;16":
        grey = np.asarray(image.convert("L")).astype(np.uint16) * 257 + 3
        image = Image.fromarray(np.minimum(grey, 65535).astype(np.uint16))
    else:
        image = image.convert("RGBA" if mode == "LA" else "RGB").convert(mode)
    path = tmp_path / f"picture.{end}"
    image.save(path, **PILLOW_OPTIONS[end][i])
    compare(path)


# ---- ImageMagick -----------------------------------------------------------------------------------

# Source, options, target ("NAME.END" or "FORMAT:NAME.END").
IMAGEMAGICK = [
    *[f"rgb.png -define png:color-type={t} {{}}.png" for t in (0, 2)],
    *[f"rgba.png -define png:color-type={t} {{}}.png" for t in (4, 6)],
    *[f"grey.png -define png:color-type=0 -define png:bit-depth={d} {{}}.png" for d in (1, 2, 4, 8, 16)],
    *[f"few.png -define png:color-type=3 -define png:bit-depth={d} {{}}.png" for d in (4, 8)],
    "rgb.png -depth 16 PNG48:{}.png",
    "rgba.png -depth 16 PNG64:{}.png",
    "rgb.png -interlace PNG {}.png",
    "rgba.png -interlace PNG {}.png",
    "few.png -interlace PNG {}.png",
    "grey.png -interlace PNG {}.png",
    *[f"rgb.png -sampling-factor {s} {{}}.jpg" for s in ("4:4:4", "4:2:2", "4:2:0", "4:1:1", "4:4:0", "1x1", "2x2")],
    *[f"rgb.png -quality {q} -interlace JPEG {{}}.jpg" for q in (5, 50, 100)],
    "rgb.png -colorspace CMYK {}.jpg",
    "rgb.png -colorspace CMYK -interlace JPEG {}.jpg",
    "rgb.png -colorspace Gray {}.jpg",
    "rgb.png -define jpeg:arithmetic-coding=true {}.jpg",
    "rgb.png -define jpeg:optimize-coding=false {}.jpg",
    "rgb.png {}.gif",
    "rgb.png -interlace GIF {}.gif",
    "rgba.png -interlace GIF {}.gif",
    "grey.png {}.gif",
    "-delay 10 rgb.png other.png {}.gif",
    "-delay 10 rgb.png other.png -layers optimize {}.gif",
    "-dispose previous -delay 10 rgba.png other.png {}.gif",
    *[f"rgb.png -compress {c} {{}}.tif" for c in ("None", "LZW", "Zip", "RLE")],
    *[f"rgb.png -define tiff:endian={e} -compress {c} {{}}.tif" for e in ("msb", "lsb") for c in ("None", "LZW")],
    *[f"rgb.png -define tiff:fill-order={e} -monochrome -compress {c} {{}}.tif" for e in ("msb", "lsb") for c in ("Fax", "Group4")],
    *[f"rgb.png -define tiff:tile-geometry=16x16 -compress {c} {{}}.tif" for c in ("None", "LZW", "Zip")],
    *[f"rgb.png -define tiff:rows-per-strip={r} {{}}.tif" for r in (1, 7)],
    "rgb.png -interlace plane -compress None {}.tif",
    "rgb.png -interlace plane -compress LZW {}.tif",
    "rgb.png -define tiff:predictor=2 -compress LZW {}.tif",
    "rgb.png TIFF64:{}.tif",
    "rgba.png {}.tif",
    "rgba.png -define tiff:alpha=associated {}.tif",
    "rgb.png -colorspace CMYK {}.tif",
    "rgb.png -colorspace Gray {}.tif",
    "rgb.png -colorspace Gray -depth 16 {}.tif",
    "few.png -type Palette {}.tif",
    "rgb.png -monochrome {}.tif",
    "rgb.png other.png -adjoin {}.tif",
    "rgb.png -quality 80 {}.webp",
    "rgba.png -quality 80 {}.webp",
    "rgb.png -define webp:lossless=true {}.webp",
    "rgba.png -define webp:lossless=true {}.webp",
    "rgb.png -define webp:method=6 -quality 10 {}.webp",
    *[f"{source} BMP{version}:{{}}.bmp" for source in ("rgb.png", "grey.png", "few.png") for version in ("2", "3", "")],
    "rgba.png BMP:{}.bmp",
    "few.png -compress RLE {}.bmp",
    "grey.png -compress RLE {}.bmp",
    "rgb.png -monochrome BMP3:{}.bmp",
    "rgb.png -define bmp:subtype=RGB565 {}.bmp",
    "rgb.png {}.ppm",
    "rgb.png -compress None {}.ppm",
    "grey.png {}.pgm",
    "grey.png -compress None {}.pgm",
    "rgb.png -depth 4 {}.ppm",
]  # fmt: skip


# ---- libvips ---------------------------------------------------------------------------------------

# Operation, source, target with options.
VIPS = [
    *[f"copy {source} {{}}.png[{options}]" for source in ("rgb.png", "rgba.png", "grey.png")
      for options in ("compression=0", "interlace=true", "filter=all", "palette=true", "palette=true,bitdepth=2")],
    *[f"copy rgb.png {{}}.jpg[{options}]" for options in (
        "Q=20", "Q=95", "interlace=true", "subsample-mode=off", "subsample-mode=on", "optimize-coding=true",
        "optimize-coding=true,interlace=true", "restart-interval=1")],
    "copy grey.png {}.jpg[Q=75]",
    *[f"copy {source} {{}}.gif[{options}]" for source in ("rgb.png", "rgba.png")
      for options in ("interlace=false", "interlace=true", "bitdepth=3", "dither=0")],
    *[f"copy rgb.png {{}}.tif[{options}]" for options in (
        "compression=none", "compression=deflate", "compression=lzw", "compression=packbits", "compression=zstd",
        "compression=lzw,predictor=horizontal", "tile=true,tile-width=16,tile-height=16", "bigtiff=true",
        "tile=true,tile-width=16,tile-height=16,pyramid=true", "compression=deflate,tile=true,tile-width=32,tile-height=16")],
    *[f"copy grey.png {{}}.tif[{options}]" for options in (
        "compression=none", "bitdepth=1", "bitdepth=2", "bitdepth=4", "bitdepth=1,compression=ccittfax4",
        "miniswhite=true", "bitdepth=1,miniswhite=true")],
    *[f"copy rgba.png {{}}.tif[{options}]" for options in ("compression=none", "compression=lzw", "premultiply=true")],
    *[f"copy {source} {{}}.webp[{options}]" for source in ("rgb.png", "rgba.png")
      for options in ("Q=30", "lossless=true", "near-lossless=true,Q=60", "smart-subsample=true", "alpha-q=50")],
    "copy rgb.png {}.ppm",
    "copy rgb.png {}.ppm[ascii=true]",
    "copy grey.png {}.pgm",
    "copy grey.png {}.pgm[ascii=true]",
]  # fmt: skip


# ---- Both ------------------------------------------------------------------------------------------

# By how much values differ: libtiff and Pillow round differently (docs/data.md).
DIFFERS = {
    "rgba.png -define tiff:alpha=associated {}.tif": 1,
    "rgb.png -colorspace CMYK {}.tif": 1,
    "rgb.png -colorspace Gray -depth 16 {}.tif": 1,
    "copy rgba.png {}.tif[premultiply=true]": 1,
}


@pytest.mark.parametrize(
    "program,line", [("convert", line) for line in IMAGEMAGICK] + [("vips", line) for line in VIPS]
)
def test_programs(base, tmp_path, program, line):
    if not shutil.which(program):
        pytest.skip(f"{program} is missing")
    command = [program, *(part.replace("{}", str(tmp_path / "picture")) for part in line.split())]
    done = subprocess.run(command, cwd=base, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.iterdir()
    compare(path, DIFFERS.get(line, 0))
