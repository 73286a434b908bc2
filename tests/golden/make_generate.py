#!/usr/bin/env python3
"""Makes tests/golden/generate.txt: texts that `transformers` and PyTorch generate by the likeliest token, and
tests/golden/checkpoints/lstm.safetensors.

    make_generate.py          needs torch 2.15.0 and transformers 5.24.0, and the files of make_checkpoints.py

A line has the name of a model, the ids of a prompt, "|", and the ids behind it. `transformers` computes them with its
cache, PyTorch with the states of the LSTM. The prompt is the first one of a sequence for which the two largest logits of
every token differ by 1e-3 or more, so that rounding changes no token.
"""
import glob
import os

import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from make_text import FOLDER, VOCABULARY, Recurrent, hashes, weights

CHECKPOINTS = os.path.join(FOLDER, "checkpoints")
CONTEXT, MARGIN = 24, 1e-3


def gpt2():
    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=16, n_layer=2, n_head=2,
                                       bos_token_id=None, eos_token_id=None))
    missing = model.load_state_dict(load_file(os.path.join(CHECKPOINTS, "gpt2.safetensors")), strict=False)
    assert not missing.unexpected_keys and missing.missing_keys in ([], ["lm_head.weight"])
    return model


def llama():
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=16, intermediate_size=44, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=CONTEXT, rms_norm_eps=1e-5, bos_token_id=None,
        eos_token_id=None))
    tensors = {}
    for path in sorted(glob.glob(os.path.join(CHECKPOINTS, "llama", "*.safetensors"))):
        tensors.update({name: tensor.float() for name, tensor in load_file(path).items()})
    model.load_state_dict(tensors)
    return model


def lstm():
    model = Recurrent()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(4 * weights(name, tuple(parameter.shape)))
    save_file(model.state_dict(), os.path.join(CHECKPOINTS, "lstm.safetensors"))
    return model


def by_transformers(model, prompt, n):
    ids = torch.tensor([prompt])
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=n, do_sample=False, pad_token_id=0,
                         output_logits=True, return_dict_in_generate=True)
    return out.sequences[0, len(prompt):].tolist(), [logits[0] for logits in out.logits]


def by_states(model, prompt, n):
    ids, logits, states, last = [], [], None, prompt
    for _ in range(n):
        y, states = model.rnn(model.encoder(torch.tensor([last])), states)
        logits.append(model.decoder(y)[0, -1])
        ids.append(logits[-1].argmax().item())
        last = ids[-1:]
    return ids, logits


def prompt(n, seed):
    return [int(h) % VOCABULARY for h in hashes(77 + n + 1000 * seed, n)]


def find_text(model, generate, n, more):
    for seed in range(20):
        ids, logits = generate(model.eval(), prompt(n, seed), more)
        assert len(ids) == more
        least = min((top[0] - top[1]).item() for top in (x.topk(2).values for x in logits))
        if least >= MARGIN:
            print(f"{n} ids: {len(set(ids))} of {more} differ, margin {least:.4f}")
            return prompt(n, seed) + ["|"] + ids
    raise SystemExit("the two largest logits are always too close")


def main():
    runs = [("gpt2", gpt2(), by_transformers, n, CONTEXT - n) for n in (1, 5, 20)]
    runs += [("llama", llama(), by_transformers, n, CONTEXT - n) for n in (1, 5, 20)]
    runs += [("lstm", lstm(), by_states, n, 30) for n in (1, 5, 150)]
    with torch.no_grad(), open(os.path.join(FOLDER, "generate.txt"), "w", encoding="ascii") as file:
        for name, model, generate, n, more in runs:
            print(name, *find_text(model, generate, n, more), file=file)


main()
