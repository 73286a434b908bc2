#!/usr/bin/env python3
"""Makes tests/golden/checkpoints: small files of weights as `transformers` writes them, and the logits that it computes
of them for the last place of sample 0 of make_text.py.

    make_checkpoints.py       needs torch 2.15.0 and transformers 5.24.0

gpt2.safetensors: float32, as GPT2LMHeadModel.save_pretrained writes it. base.safetensors: F16, the names of GPT2Model
without "transformer.", and the masks that older versions stored. llama: BF16 in two files with an index. copied.safetensors:
the model of gpt2.safetensors with a copy of the tied table as lm_head.weight.
"""
import os
import shutil
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from make_text import FOLDER, VOCABULARY, samples, weights

OUT = os.path.join(FOLDER, "checkpoints")


def begin(model):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights(name, tuple(parameter.shape)))
    return model.eval()


def logits(model):
    with torch.no_grad():
        return model.double()(samples()[0][:1]).logits[0, -1]


def gpt2():
    return begin(GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_positions=24, n_embd=16, n_layer=2, n_head=2,
                                            bos_token_id=None, eos_token_id=None, attn_implementation="eager")))


def llama():
    return begin(LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=16, intermediate_size=44, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=24, rms_norm_eps=1e-5, attn_implementation="eager")))


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(OUT)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        gpt2().save_pretrained(folder)
        shutil.copy(os.path.join(folder, "model.safetensors"), os.path.join(OUT, "gpt2.safetensors"))
    found["gpt2"] = found["copied"] = logits(gpt2())
    tensors = load_file(os.path.join(OUT, "gpt2.safetensors"))
    save_file({**tensors, "lm_head.weight": tensors["transformer.wte.weight"].clone()},
              os.path.join(OUT, "copied.safetensors"))
    base = {name.removeprefix("transformer."): tensor.half() for name, tensor in tensors.items()}
    for layer in range(2):
        base[f"h.{layer}.attn.bias"] = torch.ones(24, 24, dtype=torch.bool).tril().view(1, 1, 24, 24)
        base[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    save_file(base, os.path.join(OUT, "base.safetensors"))
    found["base"] = logits(gpt2().half().float())
    model = llama().bfloat16()
    model.save_pretrained(os.path.join(OUT, "llama"), max_shard_size="8KB")
    for name in os.listdir(os.path.join(OUT, "llama")):
        if "model" not in name:
            os.remove(os.path.join(OUT, "llama", name))
    found["llama"] = logits(model.float())
    with open(os.path.join(OUT, "logits.txt"), "w", encoding="ascii") as file:
        for name, values in found.items():
            print(name, *(f"{v.item():.9g}" for v in values), file=file)


main()
