#!/usr/bin/env python3
"""Adapters of dptrain in PEFT, and what dptrain merge makes of them.

    check_lora.py BASE ADAPTERS MERGED

The folders are those of a training of gpt or llama, of a training with --lora that began with it, and of dptrain
merge. PEFT loads BASE and ADAPTERS, `transformers` loads MERGED, and their logits must differ by at most 1e-5, while
the adapters must move them by more than 1e-3. Needs torch, transformers and peft.
"""
import sys

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM


def main(base, adapters, merged):
    model = AutoModelForCausalLM.from_pretrained(base)
    ids = (7 * torch.arange(32).reshape(2, 16) + 3) % model.config.vocab_size
    with torch.no_grad():
        before = model(ids).logits
        adapted = PeftModel.from_pretrained(model, adapters)(ids).logits
        found = AutoModelForCausalLM.from_pretrained(merged)(ids).logits
    moved, off = (adapted - before).abs().max().item(), (adapted - found).abs().max().item()
    print(f"adapters move the logits by {moved:.1e}; the merged weights' differ by {off:.1e}")
    return 0 if moved > 1e-3 and off <= 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
