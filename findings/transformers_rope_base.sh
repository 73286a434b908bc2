#!/usr/bin/env bash
# transformers 4.57.6 reads the config.json of a Llama model that transformers 5.24.0 wrote, and takes another base of
# the rotary positions without a word.
#
# Release 5 writes the base as rope_parameters.rope_theta, and no longer as rope_theta.  Release 4 keeps
# rope_parameters as an attribute that nothing reads, and rope_theta, from which its model computes the angles, gets the
# default 10000.  The weights fit, so the model loads and computes other logits.  In the other direction release 5
# understands the older form.
#
# Guess before the run: the older release ignores the new key (two in three), and warns of it.
#
# Output seen (2026-11-30, Python 3.11, Linux x86-64):
#     written by 5.24.0, read by 5.24.0: base 500000.0
#     written by 5.24.0, read by 4.57.6: base 10000.0, warnings 0
#     written by 4.57.6, read by 5.24.0: base 500000.0
#     files of transformers 4.57.6 that compute with config.rope_theta for Llama: 1
#
# What it means for dptrain: a config.json that it writes has the base in both places. It reads both, and the one of
# rope_parameters comes first, as in release 5.
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the packages cannot be installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for version in 4.57.6 5.24.0; do
    python3 -m venv "$folder/$version" || exit 2
    "$folder/$version/bin/pip" install --quiet "transformers==$version" || exit 2
done
cat >"$folder/write.py" <<'PYTHON'
import sys
from transformers import LlamaConfig

LlamaConfig(hidden_size=64, num_attention_heads=4, rope_theta=500000.0).save_pretrained(sys.argv[1])
PYTHON
cat >"$folder/read.py" <<'PYTHON'
import logging
import sys
import warnings
from transformers import AutoConfig

WORDS = ("rope", "unknown", "unrecognized", "unexpected")
said = []


class Handler(logging.Handler):
    def emit(self, record):
        said.append(record.getMessage())


logging.getLogger("transformers").addHandler(Handler())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    config = AutoConfig.from_pretrained(sys.argv[1])
said += [str(w.message) for w in caught]
base = (getattr(config, "rope_parameters", None) or {}).get("rope_theta") if sys.argv[2] == "5" else config.rope_theta
print(float(base), sum(any(word in text.lower() for word in WORDS) for text in said))
PYTHON
cd "$folder"
"$folder/5.24.0/bin/python" write.py "$folder/new" 2>/dev/null
"$folder/4.57.6/bin/python" write.py "$folder/old" 2>/dev/null
read -r same _ < <("$folder/5.24.0/bin/python" read.py "$folder/new" 5 2>/dev/null)
read -r older n_warnings < <("$folder/4.57.6/bin/python" read.py "$folder/new" 4 2>/dev/null)
read -r newer _ < <("$folder/5.24.0/bin/python" read.py "$folder/old" 5 2>/dev/null)
packages=$("$folder/4.57.6/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
n_files=$(grep -l 'config\.rope_theta' "$packages/transformers/models/llama/modeling_llama.py" \
    "$packages/transformers/modeling_rope_utils.py" | wc -l)
echo "written by 5.24.0, read by 5.24.0: base $same"
echo "written by 5.24.0, read by 4.57.6: base $older, warnings $n_warnings"
echo "written by 4.57.6, read by 5.24.0: base $newer"
echo "files of transformers 4.57.6 that compute with config.rope_theta for Llama: $n_files"
[ "$same" = 500000.0 ] && [ "$older" = 10000.0 ] && [ "$n_warnings" = 0 ] && [ "$newer" = 500000.0 ] && [ "$n_files" -ge 1 ]
