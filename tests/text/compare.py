#!/usr/bin/env python3
"""Compares dptrain's ids with those of the package tokenizers, on text and programs of this machine.

    compare.py LIBDPTRAIN.SO [MEGABYTES]

Trains tokenizers of several kinds on a part of the text, and encodes all of it.  The text is documents,
Python's library and dictionaries, as far as they are UTF-8, and then random characters of all Unicode.
Prints a line for each tokenizer, with the processor times; exit status 1 if an id differs.
"""

import ctypes
import os
import random
import sys
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers  # noqa: E402

from make import LLAMA3, QWEN2, split  # noqa: E402

ROOTS = ("/usr/share/doc", "/usr/share/dict", "/usr/share/perl5", "/usr/include", os.path.dirname(os.__file__))


def files(wanted):
    """Text of this machine, about so many bytes."""
    paths = []
    for root in ROOTS:
        for folder, _, names in os.walk(root):
            paths += [os.path.join(folder, name) for name in names]
    paths.sort()
    random.shuffle(paths)
    found = []
    for path in paths:
        try:
            with open(path, "rb") as file:
                text = file.read(60000)
        except OSError:
            continue
        if b"\0" in text[:1000] or text.startswith(b"\x1f\x8b"):
            continue
        found.append(text.decode("utf-8", "ignore"))
        wanted -= len(text)
        if wanted < 0:
            break
    return "".join(found)


def odd_characters():
    characters = [chr(c) for c in range(1, 0x110000)
                  if not 0xd800 <= c < 0xe000 and (c < 0x30000 or c % 97 == 0)]
    random.shuffle(characters)
    pieces = [" ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u2028", "\x85", "'", "'S", "'\u017f", "'ll", "'LL",
              "1", "23", "a", "\u00e9", "\u4e2d", "\U0001f600", "don", "the", "Hello", "x", "\u0301", "_", "-",
              "\u2460", "<|endoftext|>", "<|start|>", "<|st"]
    return "".join(characters[:100000]) + "".join(random.choice(pieces) for _ in range(300000))


def train(path, pre_tokenizer, size, **options):
    tokenizer = Tokenizer(models.BPE(**options))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.train([path], trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def tokenizers(folder, text):
    """Pairs of a path for dptrain and the tokenizer of the package."""
    path = os.path.join(folder, "text")
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text[:2000000])
    byte_level = pre_tokenizers.ByteLevel
    gpt2 = train(path, byte_level(add_prefix_space=False), 8000)
    gpt2.model.save(folder)
    yield folder, gpt2
    more = {
        "prefix": train(path, byte_level(add_prefix_space=True), 2000),
        "llama3": train(path, split(LLAMA3), 8000, ignore_merges=True),
        "qwen2": train(path, split(QWEN2), 2000),
    }
    more["llama3"].add_special_tokens([AddedToken("<|start|>", lstrip=True, rstrip=True, normalized=False),
                                       AddedToken("<|st", normalized=False)])
    more["llama3"].add_tokens([AddedToken("Hello", normalized=True, rstrip=True)])
    for name, tokenizer in more.items():
        path = os.path.join(folder, name + ".json")
        tokenizer.save(path)
        yield path, tokenizer


class Ours:
    """dptrain's tokenizers."""

    def __init__(self, library):
        self.library = ctypes.CDLL(library)
        self.library.dpt_error_message.restype = ctypes.c_char_p
        self.context = ctypes.c_void_p()
        assert self.library.dpt_context_create(ctypes.byref(self.context)) == 0

    def encode(self, path, text):
        """The ids, and the processor time."""
        tokenizer, ids, n = ctypes.c_void_p(), ctypes.POINTER(ctypes.c_int32)(), ctypes.c_size_t()
        if self.library.dpt_tokenizer_open(self.context, path.encode(), ctypes.byref(tokenizer)) != 0:
            sys.exit(self.library.dpt_error_message(self.context).decode())
        began = time.process_time()
        assert self.library.dpt_tokenizer_encode(self.context, tokenizer, text, ctypes.c_size_t(len(text)),
                                                 ctypes.byref(ids), ctypes.byref(n)) == 0
        seconds = time.process_time() - began
        found = ids[:n.value]
        self.library.dpt_tokenizer_destroy(tokenizer)
        return found, seconds


def main():
    random.seed(1)
    ours = Ours(sys.argv[1])
    text = files(1000000 * int(sys.argv[2] if len(sys.argv) > 2 else 10)) + odd_characters()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for path, tokenizer in tokenizers(folder, text):
            ids, seconds = ours.encode(path, text.encode())
            began = time.process_time()
            wanted = tokenizer.encode(text, add_special_tokens=False).ids
            theirs = time.process_time() - began
            same = ids == wanted and len(ids) > 1000
            failed = failed or not same
            print(f"{os.path.basename(path) if path != folder else 'gpt2'}: {len(text.encode())} bytes, "
                  f"{len(wanted)} ids, {'the same' if same else 'OTHER IDS'}, {seconds:.2f} s, "
                  f"tokenizers {theirs:.2f} s, ratio {theirs / seconds:.1f}")
    return 1 if failed else 0


sys.exit(main())
