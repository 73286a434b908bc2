#!/usr/bin/env python3
"""Makes the tokenizers of this folder and the ids that the package tokenizers gives their sample.

    make.py      needs the package tokenizers; 0.23.3 made the files

The tokenizers are trained on this project's documents: gpt2/ (vocab.json and merges.txt), prefix.json
(GPT-2's pre-tokenizer with a space in front), llama3.json and qwen2.json (their pre-tokenizers, ignore_merges,
special tokens).  NAME.ids has one id a line, of sample.txt.
"""

import glob
import os

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def train(pre_tokenizer, size, **options):
    tokenizer = Tokenizer(models.BPE(**options))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train(sorted(glob.glob(os.path.join(ROOT, "docs", "*.md"))), trainer)
    return tokenizer


def main():
    with open(os.path.join(HERE, "sample.txt"), encoding="utf-8", newline="") as file:
        sample = file.read()
    byte_level = pre_tokenizers.ByteLevel
    made = {
        "gpt2": train(byte_level(add_prefix_space=False), 600),
        "prefix": train(byte_level(add_prefix_space=True), 500),
        "llama3": train(split(LLAMA3), 600, ignore_merges=True),
        "qwen2": train(split(QWEN2), 500),
    }
    made["llama3"].add_special_tokens([AddedToken("<|start|>", lstrip=True, rstrip=True, normalized=False),
                                       AddedToken("<|st", normalized=False)])
    made["llama3"].add_tokens([AddedToken("Hello", normalized=True, rstrip=True)])
    for name, tokenizer in made.items():
        ids = tokenizer.encode(sample, add_special_tokens=False).ids
        with open(os.path.join(HERE, name + ".ids"), "w", encoding="ascii") as file:
            file.write("".join(f"{i}\n" for i in ids))
        if name == "gpt2":
            os.makedirs(os.path.join(HERE, name), exist_ok=True)
            tokenizer.model.save(os.path.join(HERE, name))
        else:
            tokenizer.save(os.path.join(HERE, name + ".json"), pretty=False)


if __name__ == "__main__":
    main()
