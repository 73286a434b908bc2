#!/usr/bin/env bash
# Adapters on the command line: files, resuming, merging, what is refused.
# shellcheck source=tests/cli/kit.bash
. "$SRC/tests/cli/kit.bash"
need_python

python3 -c 'print("the quick brown fox jumps over the lazy dog " * 400)' >text.txt
common=(--model gpt:2:2:32:32 --dataset text:32 --data text.txt --test-data text.txt --batch-size 8 --optimizer adamw
    --lr 0.01 --devices cpu:threads=1,cpu:threads=1 --split 3:1)
rm -rf base run whole parts more merged bad odd named
train "${common[@]}" --max-steps 2 --checkpoint base --quiet

# The folder of PEFT has adapters, and neither it nor a checkpoint has the base.
train "${common[@]}" --max-steps 6 --load base --lora 4 --checkpoint whole --quiet
check "the files of adapters" python3 - <<'PYTHON'
import json, os, struct
def header(path):
    with open(path, "rb") as file:
        return json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
config = json.load(open("whole/adapter_config.json"))
assert config["r"] == 4 and config["lora_alpha"] == 8 and config["target_modules"] == ["c_attn"], config
assert config["fan_in_fan_out"] and config["base_model_name_or_path"] == "base", config
names = set(header("whole/adapter_model.safetensors")) - {"__metadata__"}
assert names == {"base_model.model.transformer.h.%d.attn.c_attn.lora_%s.weight" % (i, h) for i in (0, 1) for h in "AB"}
assert not os.path.exists("whole/model.safetensors") and not os.path.exists("whole/config.json")
assert os.path.getsize("whole/checkpoint-000000006.safetensors") < os.path.getsize("base/model.safetensors") / 4
PYTHON

# A training that is resumed has the same bits, with the same base alone.
train "${common[@]}" --max-steps 3 --load base --lora 4 --checkpoint parts --quiet
train "${common[@]}" --max-steps 6 --load base --lora 4 --checkpoint parts --resume --quiet
check "the same bits" cmp whole/adapter_model.safetensors parts/adapter_model.safetensors
refuse 2 "has adapters of other base weights" "${common[@]}" --max-steps 9 --lora 4 --checkpoint parts --resume --quiet

# A folder is what training begins with; its description says where the base is.
train "${common[@]}" --max-steps 1 --lora whole --checkpoint more --quiet
check "the base of the folder" grep -q '"base_model_name_or_path": "base"' more/adapter_config.json

# Merged weights are evaluated as any others.
check "merging" "$DPTRAIN" merge --lora whole --load base --checkpoint merged >merge.txt
check "merged files" test -s merged/model.safetensors -a -s merged/config.json
"$DPTRAIN" eval --checkpoint merged --model gpt:2:2:32:32 --dataset text:32 --data text.txt --test-data text.txt >eval.txt
check "merged weights are evaluated" grep -q "^test loss" eval.txt

# PEFT loads the adapters, and transformers the merged weights, where there is a Python that has both.
python=${DPTRAIN_TEST_PYTHON:-python3}
"$python" -c 'import peft, torch, transformers' 2>/dev/null &&
    check "adapters in PEFT" "$python" -B "$SRC/tests/golden/check_lora.py" base whole merged

# The bytes that devices exchange.
check "plan" grep -q "exchange: 4096 bytes" <("$DPTRAIN" plan "${common[@]}" --lora 4)

refuse 2 "adapters of rank 0" "${common[@]}" --lora 0
refuse 2 "has no linear layer over sequences that 'zz' matches" "${common[@]}" --lora 8:16:zz
refuse 2 "is neither RANK\[:ALPHA\]\[:LAYERS\]" "${common[@]}" --lora 8:0
refuse 2 "--fresh and --lora" "${common[@]}" --lora 8 --load base --fresh lm_head
refuse 2 "adapters are all that is trained" "${common[@]}" --lora 8 --freeze '*lora_A*'
refuse 2 "no linear layers over sequences" --model lenet --dataset synthetic:28x28x1:10:100 --lora 4
for verb in generate export; do
    rest=()
    [ $verb = generate ] && rest=(--prompt x)
    [ $verb = export ] && rest=(--onnx adapters.onnx)
    refuse 2 "whole has adapters and no weights: dptrain merge adds them to their base" $verb --checkpoint whole "${rest[@]}"
done
refuse 2 "beside which adapters would be mistaken: name another folder" "${common[@]}" --lora 4 --load base --checkpoint base
refuse 2 "beside which weights would be mistaken: merge into another folder" merge --lora whole --load base --checkpoint whole
mkdir -p odd named
cp base/model.safetensors odd/adapter_model.safetensors
cp whole/adapter_config.json odd
refuse 1 "odd/adapter_model.safetensors has weights and no adapters" "${common[@]}" --load base --lora odd
cp whole/adapter_model.safetensors named
sed 's/"base_model_name_or_path": "base"/"base_model_name_or_path": "gone"/' whole/adapter_config.json >named/adapter_config.json
refuse 1 "the base gone, which the adapters name, is not there" "${common[@]}" --lora named --quiet
refuse 2 "has adapters: give their folder with --lora" "${common[@]}" --load whole/adapter_model.safetensors --lora 4
refuse 2 "another model .*give the same \(--model, --lora\)" "${common[@]}" --lora 8 --load base --checkpoint parts --resume --quiet
sed 's/"init_lora_weights": true/"init_lora_weights": "pissa"/' whole/adapter_config.json >named/adapter_config.json
refuse 1 "its init_lora_weights is pissa, which may change the base" "${common[@]}" --load base --lora named
sed 's/"lora_dropout": 0.0/"lora_dropout": -1/' whole/adapter_config.json >named/adapter_config.json
refuse 1 "lora_dropout" "${common[@]}" --load base --lora named
refuse 2 "is the file of the base" merge --lora whole --load base --checkpoint base
refuse 2 "has adapters of other base weights than" merge --lora whole --load merged --checkpoint bad
refuse 2 "has adapters and no weights: dptrain merge" eval --checkpoint whole --dataset text:32 --data text.txt
check "no folder is left" test ! -e bad
# Values that are not finite, in adapters and in the base; without the seal of dptrain's own files.
break_value() { # FILE TENSOR OUT
    python3 - "$@" <<'EOF'
import json, struct, sys
path, tensor, out = sys.argv[1:]
data = open(path, "rb").read()
n = struct.unpack("<Q", data[:8])[0]
header, body = json.loads(data[8 : 8 + n]), bytearray(data[8 + n :])
header.pop("__metadata__", None)
name = next(name for name in header if name.endswith(tensor))
at = header[name]["data_offsets"][0] + 4
body[at : at + 4] = struct.pack("<f", float("nan"))
text = json.dumps(header).encode()
open(out, "wb").write(struct.pack("<Q", len(text)) + text + body)
EOF
}
if command -v python3 >/dev/null; then
    mkdir -p broken
    cp whole/adapter_config.json broken
    break_value whole/adapter_model.safetensors h.1.attn.c_attn.lora_B.weight broken/adapter_model.safetensors
    refuse 1 "broken/adapter_model.safetensors: tensor base_model.model.*h.1.attn.c_attn.lora_B.weight has a value that is not finite" \
        merge --lora broken --load base --model gpt:2:2:32:32:256 --checkpoint bad
    break_value base/model.safetensors wte.weight broken/base.safetensors
    refuse 1 "broken/base.safetensors: tensor .*wte.weight has a value that is not finite" \
        merge --lora whole --load broken/base.safetensors --checkpoint bad
    check "no folder is left" test ! -e bad
fi
refuse 2 "merge needs adapters" merge --load base --checkpoint bad
refuse 2 "merge needs a folder of adapters" merge --lora 8 --load base --checkpoint bad
finish
