#!/usr/bin/env python3
"""Makes tests/golden/lora/RUN: adapters of PEFT, and the losses of PEFT over 20 steps of AdamW that begin with them.

    make_lora.py [RUN...]     needs torch 2.15.0, transformers 5.24.0 and peft 0.21.2; without RUN all of them

The base's weights and the samples are those of make_text.py. Losses were computed in float64. Each run is repeated in
float32, which says how much of a difference can be rounding; a run in which that is more than a tenth of what the test
tolerates is refused, and so is one whose loss does not fall by a twentieth. The folder has the adapters before the
first step as PEFT saves them, and losses.txt, with the logits of the last place of sample 0 for these adapters.
"""
import os
import sys

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from torch.nn import functional as F

import make_text

STEPS, RATE, RANK, ALPHA = 20, 1e-2, 4, 8
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lora")


def begin(name, dtype):
    model = make_text.begin(name, torch.float32).model
    # target_modules are PEFT's defaults for the network.
    model = get_peft_model(model, LoraConfig(r=RANK, lora_alpha=ALPHA, task_type="CAUSAL_LM"))
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if "lora_" not in key:
                continue
            plain = key.removeprefix("base_model.model.").replace(".default", "")
            factor = 0.1 if "lora_B" in key else 1
            parameter.copy_(factor * make_text.weights(plain, tuple(parameter.shape)))
    return model.to(dtype).train()


def train(name, dtype):
    model = begin(name, dtype)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=RATE, weight_decay=make_text.DECAY)
    ids, labels = make_text.samples()
    losses = []
    for step in range(STEPS):
        first = step * make_text.BATCH % make_text.COUNT
        batch = slice(first, first + make_text.BATCH)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(ids[batch]).logits.flatten(0, 1), labels[batch].flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def make(name):
    exact, rounded = train(name, torch.float64), train(name, torch.float32)
    error = np.abs(exact - rounded).max()
    print(f"{name}: loss {exact[0]:.4f} to {exact[-1]:.4f}, float32 differs by {error:.1e}")
    if error > 0.1 * make_text.TOLERANCE or exact[-1] > 0.95 * exact[0]:
        sys.exit(f"{name}: rounding grows too much, or the loss does not fall by a twentieth")
    folder = os.path.join(FOLDER, name)
    begin(name, torch.float32).save_pretrained(folder)
    os.remove(os.path.join(folder, "README.md"))
    with torch.no_grad():
        logits = begin(name, torch.float64)(make_text.samples()[0][:1]).logits[0]
    with open(os.path.join(folder, "losses.txt"), "w", encoding="ascii") as file:
        print(f"# PEFT with PyTorch {torch.__version__} in float64, made by make_lora.py. In float32 losses differ by "
              f"{error:.1e}.", file=file)
        for logit in logits[-1]:
            print(f"logit {logit.item():.9g}", file=file)
        for loss in exact:
            print(f"loss {loss:.9g}", file=file)


if __name__ == "__main__":
    for wanted in sys.argv[1:] or ("gpt", "llama"):
        make(wanted)
