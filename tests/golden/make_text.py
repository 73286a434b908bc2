#!/usr/bin/env python3
"""Makes tests/golden/text-RUN.txt: the losses of language models of `transformers` and PyTorch over 30 steps of AdamW.

    make_text.py [RUN...]     needs torch 2.15.0 and transformers 5.24.0; without RUN all of them

Weights and samples are functions of names and numbers that this script and tests/train/test_text_models.c compute
alike. Losses were computed in float64. Each run is repeated in float32, which says how much of a difference can be
rounding; a run in which that is more than a tenth of what the test tolerates is refused, and so is one whose loss does
not fall by a fifth.
"""
import os
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

COUNT, BATCH, LENGTH, CONTEXT, VOCABULARY, WIDTH, STEPS = 48, 16, 16, 24, 61, 32, 30
RATES = {"lstm": 1e-2}  # of the others: 2e-3
CLIP_NORMS = {"gpt-clipped": 0.3}
DECAY, TOLERANCE = 0.1, 1e-4
FOLDER = os.path.dirname(os.path.abspath(__file__))


def hashes(seed, n):
    """n numbers of 32 bits."""
    x = (np.uint64(seed) + np.arange(n, dtype=np.uint64) * np.uint64(2654435761)) & np.uint64(0xffffffff)
    for shift, factor in ((16, 0x7feb352d), (15, 0x846ca68b)):
        x ^= x >> np.uint64(shift)
        x = (x * np.uint64(factor)) & np.uint64(0xffffffff)
    return x ^ (x >> np.uint64(16))


def seed_of(name):
    """FNV-1a."""
    seed = 2166136261
    for byte in name.encode():
        seed = ((seed ^ byte) * 16777619) & 0xffffffff
    return seed


def weights(name, shape):
    u = (hashes(seed_of(name), int(np.prod(shape))) >> np.uint64(8)).astype(np.float64) * 2.0**-24 - 0.5
    if ".ln_" in name or "norm" in name:
        u = 0.4 * u + (1 if name.endswith(".weight") else 0)
    else:
        u = 0.5 * u
    return torch.from_numpy(u.astype(np.float32).reshape(shape))


def samples():
    """Ids and labels; sample i has no labels at its first i * 5 % 13 places."""
    ids = np.zeros((COUNT, LENGTH + 1), np.int64)
    for i in range(COUNT):
        h = hashes(1000 + i, LENGTH + 1)
        ids[i, 0] = h[0] % VOCABULARY
        for k in range(1, LENGTH + 1):
            ids[i, k] = h[k] % VOCABULARY if (h[k] >> np.uint64(8)) % 4 == 0 else (3 * ids[i, k - 1] + 1) % VOCABULARY
    labels = ids[:, 1:].copy()
    for i in range(COUNT):
        labels[i, :i * 5 % 13] = -100
    return torch.from_numpy(ids[:, :-1].copy()), torch.from_numpy(labels)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.rnn = nn.LSTM(WIDTH, WIDTH, 2, batch_first=True)

    def forward(self, ids):
        return self.decoder(self.rnn(self.encoder(ids))[0])


class Logits(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(ids).logits


def gpt():
    config = GPT2Config(vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=WIDTH, n_layer=4, n_head=4, resid_pdrop=0,
                        embd_pdrop=0, attn_pdrop=0, attn_implementation="eager")
    return GPT2LMHeadModel(config)


def llama(tied=False):
    config = LlamaConfig(vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=88, num_hidden_layers=4,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=CONTEXT,
                         rms_norm_eps=1e-5, tie_word_embeddings=tied, attn_implementation="eager")
    return LlamaForCausalLM(config)


RUNS = {"gpt": gpt, "gpt-clipped": gpt, "llama": llama, "llama-tied": lambda: llama(True), "lstm": Recurrent}


def begin(name, dtype):
    torch.manual_seed(0)
    model = RUNS[name]()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.copy_(weights(key, tuple(parameter.shape)))
    model = model.to(dtype).train()
    return model if name == "lstm" else Logits(model)


def train(name, dtype, clips=True):
    model = begin(name, dtype)
    parameters = list(model.parameters())
    groups = [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": DECAY},
              {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0}]
    optimizer = torch.optim.AdamW(groups, lr=RATES.get(name, 2e-3))
    ids, labels = samples()
    losses = []
    for step in range(STEPS):
        batch = slice(step * BATCH % COUNT, step * BATCH % COUNT + BATCH)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(ids[batch]).flatten(0, 1), labels[batch].flatten())
        loss.backward()
        if clips and name in CLIP_NORMS:
            nn.utils.clip_grad_norm_(parameters, CLIP_NORMS[name])
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def make(name):
    exact, rounded = train(name, torch.float64), train(name, torch.float32)
    error = np.abs(exact - rounded).max()
    print(f"{name}: loss {exact[0]:.4f} to {exact[-1]:.4f}, float32 differs by {error:.1e}")
    if error > 0.1 * TOLERANCE or exact[-1] > 0.8 * exact[0]:
        sys.exit(f"{name}: rounding grows too much, or the loss does not fall by a fifth")
    if name in CLIP_NORMS and np.abs(exact - train(name, torch.float64, clips=False)).max() < 50 * TOLERANCE:
        sys.exit(f"{name}: clipping changes too little")
    with torch.no_grad():
        logits = begin(name, torch.float64)(samples()[0][:1])[0]
    with open(os.path.join(FOLDER, f"text-{name}.txt"), "w", encoding="ascii") as file:
        print(f"# PyTorch {torch.__version__} in float64, made by make_text.py. In float32 losses differ by "
              f"{error:.1e}.\n# First the logits of the last place of sample 0 before the first step.", file=file)
        for logit in logits[-1]:
            print(f"logit {logit.item():.9g}", file=file)
        for loss in exact:
            print(f"loss {loss:.9g}", file=file)


if __name__ == "__main__":
    for wanted in sys.argv[1:] or RUNS:
        make(wanted)
