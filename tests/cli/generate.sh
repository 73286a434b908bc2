#!/usr/bin/env bash
# dptrain generate: texts of checkpoints of transformers and of our own, what is written when, and
# what is refused; models from a config.json.
. "$SRC/tests/cli/kit.bash"
need_python
files=$SRC/tests/golden/checkpoints

# Folders as transformers writes them.  Ids 0 to 60 are the characters from "!" on; the model does not know the rest.
python3 - <<'PYTHON'
import json, os
os.makedirs("gpt2"); os.makedirs("llama")
json.dump({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 2, "n_head": 2, "n_embd": 16,
           "n_positions": 24, "vocab_size": 61, "activation_function": "gelu_new", "n_inner": None,
           "eos_token_id": 60}, open("gpt2/config.json", "w"))
json.dump({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 16,
           "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 44, "vocab_size": 61,
           "max_position_embeddings": 24, "rms_norm_eps": 1e-5, "rope_parameters": {"rope_type": "default",
           "rope_theta": 10000.0}, "tie_word_embeddings": False, "eos_token_id": [60]}, open("llama/config.json", "w"))
plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
spelt = plain + [256 + i for i in range(256 - len(plain))]  # how files of GPT-2 spell bytes
letters = {chr(c): i for i, c in enumerate(spelt)}
for folder in "gpt2", "llama":
    json.dump(letters, open(folder + "/vocab.json", "w"))
    open(folder + "/merges.txt", "w").write("#version: 0.2\n")
PYTHON
cp "$files/gpt2.safetensors" gpt2/model.safetensors
cp "$files"/llama/* llama/

# Every text of tests/golden/generate.txt that the two have.
check "texts of transformers" python3 - "$DPTRAIN" "$SRC/tests/golden/generate.txt" <<'PYTHON'
import json, subprocess, sys
n = 0
for line in open(sys.argv[2]):
    name, *ids = line.split()
    if name == "lstm":
        continue
    at = ids.index("|")
    spell = lambda part: "".join(chr(33 + int(i)) for i in part)
    out = subprocess.run([sys.argv[1], "generate", "--checkpoint", name, "--prompt=" + spell(ids[:at]), "--tokens", "50",
                          "--json", "out.json"], capture_output=True, text=True)
    log = json.load(open("out.json"))
    # The last token of the file is that of the full context; generate draws one more behind it.
    assert out.returncode == 0 and out.stdout[:-1] == spell(ids[at + 1:]), (line, out)
    assert log["prompt"] == list(map(int, ids[:at])) and log["ids"][:-1] == list(map(int, ids[at + 1:]))
    assert log["stopped"] == "context" and "context of the model was full" in out.stderr
    n += 1
assert n == 6
PYTHON

run() { "$DPTRAIN" generate --checkpoint gpt2 --prompt '3!A' --quiet "$@" 2>run.err; }
run --tokens 6 >greedy.out
check "six tokens" test "$(wc -c <greedy.out)" -eq 6
run --tokens 6 --temperature 1 --top-k 1 --seed 4 >one.out
check "top-k 1 is greedy" cmp greedy.out one.out
run --tokens 12 --temperature 2 --top-p 0.9 --seed 4 >first.out
run --tokens 12 --temperature 2 --top-p 0.9 --seed 4 >again.out
run --tokens 12 --temperature 2 --top-p 0.9 --seed 5 >other.out
check "a seed repeats" cmp first.out again.out
check "another seed differs" sh -c '! cmp -s first.out other.out'
check "quiet" test ! -s run.err
printf '3!A' | "$DPTRAIN" generate --checkpoint gpt2 --prompt-file - --quiet --tokens 6 >piped.out
check "a prompt from standard input" cmp greedy.out piped.out
stop=$(python3 -c 'print(ord(open("greedy.out").read()[-1]) - 33)')
run --tokens 6 --stop-id "59,$stop" >stopped.out
check "stops before a token of --stop-id" python3 -c '
a, b = open("greedy.out").read(), open("stopped.out").read()
assert b == a[:a.index(a[-1])]'

# Our own checkpoint: bytes, and characters of several bytes come whole.
python3 -c 'open("data.txt", "w").write("äöü€ " * 400)'
train --model gpt:1:2:16:24 --dataset text:16 --data data.txt --batch-size 8 --optimizer adamw --lr 0.03 --max-steps 60 \
    --checkpoint own --quiet
"$DPTRAIN" generate --checkpoint own --prompt 'ä' --tokens 20 --temperature 1.5 --seed 1 >own.out 2>own.err
check "bytes" python3 -c 'text = open("own.out", encoding="utf-8", errors="strict").read(); assert text'
check "the device is told" grep -q "^dptrain: cpu: 2 tokens read" own.err
"$DPTRAIN" generate --checkpoint own --prompt 'ä' --tokens 20 --temperature 1.5 --seed 1 --deterministic >same.out 2>same.err
check "deterministic" test -s same.out

# A model of config.json is evaluated and trained.
python3 - <<'PYTHON'
import struct
open("ids.bin", "wb").write(struct.pack("<800H", *[i * i % 61 for i in range(800)]))
PYTHON
check "eval of a folder of transformers" "$DPTRAIN" eval --checkpoint llama --dataset tokens:16:u16:61 \
    --data ids.bin >eval.out 2>eval.err
check "its model is told" grep -q "model llama/config.json, as llama/config.json says" eval.err
train --model ./llama --load llama --dataset tokens:16:u16:61 --data ids.bin --batch-size 4 --max-steps 2 \
    --checkpoint tuned --quiet
check "the trained network has its form as name" python3 - <<'PYTHON'
import json, struct
data = open("tuned/model.safetensors", "rb").read()
meta = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])["__metadata__"]
assert meta["model"] == "llama:2:4:2:16:24:61:44:10000", meta["model"]
PYTHON
sed 's/1e-05/1e-06/; s/"hidden_size"/"head_dim": 8, "hidden_size"/' llama/config.json >wide.json
train --model wide.json --dataset tokens:16:u16:61 --data ids.bin --batch-size 4 --max-steps 2 \
    --checkpoint wide --quiet
check "a network without a name is that of its own config.json" "$DPTRAIN" generate --checkpoint wide --prompt ABC \
    --tokenizer llama --tokens 3 --quiet >wide.out
check "head_dim and epsilon" python3 -c '
import json
config = json.load(open("wide/config.json"))
assert config["head_dim"] == 8 and config["rms_norm_eps"] == 1e-6'

# A text that may be very long takes memory as it grows.  Sanitizers need more address space than that.
if (ulimit -v 3000000 && "$DPTRAIN" --version) >/dev/null 2>&1; then
    (
        ulimit -v 3000000
        run --tokens 1000000000 --devices cpu:threads=1 --stop-id "$stop" >long.out
    )
    check "a thousand million tokens, of which one ends the text: $(cat run.err)" cmp long.out stopped.out
fi

# What is refused.
refuse 2 "generate needs weights" generate --prompt A
refuse 2 "either --prompt TEXT or --prompt-file" generate --checkpoint gpt2
refuse 2 "either --prompt TEXT or --prompt-file" generate --checkpoint gpt2 --prompt A --prompt-file B
: >empty.txt
refuse 2 "draw tokens, which needs a --temperature above 0" generate --checkpoint gpt2 --prompt A --top-k 3
refuse 2 "gpt2/model.safetensors is the file of the weights" generate --checkpoint gpt2 --prompt A --json gpt2/model.safetensors
refuse 2 "the prompt is empty" generate --checkpoint gpt2 --prompt-file empty.txt
refuse 1 "cannot read missing.txt" generate --checkpoint gpt2 --prompt-file missing.txt
refuse 2 "25 tokens behind 0 others are more than the context" generate --checkpoint gpt2 \
    --prompt AAAAAAAAAAAAAAAAAAAAAAAAA
refuse 2 "temperature" generate --checkpoint gpt2 --prompt A --temperature -1
refuse 2 "temperature" generate --checkpoint gpt2 --prompt A --temperature nan
refuse 2 "top-p" generate --checkpoint gpt2 --prompt A --top-p 1.5
refuse 2 "top-p" generate --checkpoint gpt2 --prompt A --top-p 0
refuse 2 "top-k" generate --checkpoint gpt2 --prompt A --top-k 0
refuse 2 "stop-id takes ids" generate --checkpoint gpt2 --prompt A --stop-id 1-3
refuse 2 "stop-id: 61 is none of the ids 0 to 60 of the model" generate --checkpoint gpt2 --prompt A --stop-id 3,61
OMPI_COMM_WORLD_SIZE=2 refuse 2 "generate is for one process, and this is one of 2: run it without mpirun" \
    generate --checkpoint gpt2 --prompt A
refuse 2 "generate uses one device, and --devices has 2" generate --checkpoint gpt2 --prompt A --devices cpu,cpu
refuse 2 "give --tokenizer PATH" generate --checkpoint "$files/gpt2.safetensors" --model gpt:2:2:16:24:61 --prompt A
refuse 1 "missing.json" generate --checkpoint gpt2 --tokenizer missing.json --prompt A
refuse 2 "generate needs a language model" generate --checkpoint "$files/gpt2.safetensors" --prompt A
refuse 1 "missing" generate --checkpoint missing --prompt A --model gpt2
refuse 2 "has the id 66, and model .* has a vocabulary of 61" generate --checkpoint gpt2 --prompt c

# config CODE PATTERN FROM TO: the config.json of llama with a change is refused.
config() {
    sed "s/$3/$4/" llama/config.json >broken.json
    cmp -s broken.json llama/config.json && fail "the change $3 changes nothing"
    refuse "$1" "broken.json.*$2" generate --checkpoint llama --model broken.json --prompt A
}
config 1 "is damaged" '}$' ''
config 1 "\"hidden_size\" is not a whole number" '"hidden_size": 16' '"hidden_size": -16'
config 1 "\"num_key_value_heads\" is not a divisor" '"num_key_value_heads": 2' '"num_key_value_heads": 3'
config 1 "\"rms_norm_eps\" is not a number" '"rms_norm_eps": 1e-05' '"rms_norm_eps": "small"'
config 1 "\"rope_parameters\" asks for scaled rotary" '"default"' '"yarn"'
config 1 "\"model_type\" asks for a network of the type \"qwen9\"" '"llama"' '"qwen9"'
config 1 "\"architectures\" asks for the network Other" 'LlamaForCausalLM' 'Other'
config 1 "\"attention_bias\" asks for biases" '"hidden_size"' '"attention_bias": true, "hidden_size"'
config 1 "\"hidden_act\" asks for \"gelu\"" '"hidden_size"' '"hidden_act": "gelu", "hidden_size"'
config 1 "\"sliding_window\" asks for attention within" '"hidden_size"' '"sliding_window": 8, "hidden_size"'
config 1 "\"quantization_config\" asks" '"hidden_size"' '"quantization_config": {}, "hidden_size"'
sed 's/"vocab_size": 61/"vocab_size": 60/' llama/config.json >other.json
refuse_listed 2 "tensor model.embed_tokens.weight" generate --checkpoint llama --model other.json --prompt A
finish
