# Files, folders and an environment from somebody who means harm: nothing outside of a folder is
# written, memory is taken for no more than there is, no plug-in is opened from elsewhere.
# shellcheck source=tests/cli/kit.bash
. "$SRC/tests/cli/kit.bash"

common=(--dataset synthetic:8x8x1:2:64 --model linear --batch-size 16 --devices cpu:threads=1 --quiet)
rm -rf folder new data altered.safetensors plugins dptrain-as-another precious holes pipe
# Refused like that, behind warnings.
refuse_late() {
    checks=$((checks + 1))
    local pattern=$1
    shift
    "$DPTRAIN" "$@" >refuse.out 2>refuse.err </dev/null
    [ $? -eq 1 ] && tail -n 1 refuse.err | grep -q "$pattern" || fail "dptrain $*: $(cat refuse.err)"
}
unchanged() { [ "$(cat precious)" = precious ]; }
echo precious >precious

# ---- A checkpoint folder with links and pipes ------------------------------------------------------

mkdir folder
for name in model best checkpoint-000000004; do ln -s ../precious folder/$name.safetensors; done
mkfifo folder/checkpoint-000000008.safetensors
ln -s ../precious folder/.dptrain-2147483647-0.tmp
refuse 2 "folder has the checkpoints of a training that was interrupted" "${common[@]}" \
    --checkpoint folder
refuse_late "no checkpoint in folder is sound" "${common[@]}" --checkpoint folder --resume --log new
check "nothing is written through a link before" unchanged
rm folder/checkpoint-*
ln -s ../precious folder/checkpoint-000000002.safetensors
mkdir new
train "${common[@]}" --checkpoint new --max-steps 2 --validation 0.25
cp new/checkpoint-000000002.safetensors folder/checkpoint-000000001.safetensors
rm folder/checkpoint-000000002.safetensors
mv folder/checkpoint-000000001.safetensors folder/checkpoint-000000002.safetensors
ln -s ../precious folder/checkpoint-000000003.safetensors
mkfifo folder/checkpoint-000000004.safetensors
train "${common[@]}" --checkpoint folder --resume --max-steps 6 --validation 0.25 --checkpoint-every 1steps
check "links and pipes among checkpoints are passed over" grep -q "no regular file\|no checkpoint" train.err
check "nothing is written through a link" unchanged
for name in model checkpoint-000000006; do
    check "$name has taken the link's place" test -f folder/$name.safetensors -a ! -L folder/$name.safetensors
done

rm -rf piped
mkdir piped
for name in model best; do mkfifo piped/$name.safetensors; done
train "${common[@]}" --checkpoint piped --max-steps 2 --validation 0.25
for name in model best; do
    check "$name has taken the pipe's place" test -f piped/$name.safetensors
    rm piped/$name.safetensors
    ln -s "$PWD/folder" piped/$name.safetensors
done
train "${common[@]}" --checkpoint piped --max-steps 2 --validation 0.25
check "a link to a folder is taken away" test -f piped/model.safetensors -a ! -L piped/model.safetensors

# ---- Damage --------------------------------------------------------------------------------------

# altered FILE FROM TO: the first place of these bytes is changed.
altered() {
    LC_ALL=C sed "0,/$2/s/$2/$3/" "$1" >altered.safetensors
    check "$1 has been altered" test -s altered.safetensors -a "$(cmp -s "$1" altered.safetensors; echo $?)" = 1
}
for file in piped/model.safetensors piped/best.safetensors piped/checkpoint-000000002.safetensors; do
    altered $file F32 F64
    refuse 1 "altered.safetensors: its checksum does not fit" "${common[@]}" --load altered.safetensors
    altered $file checksum chocksum
    refuse 1 "altered.safetensors says that it is dptrain's and has no checksum" "${common[@]}" \
        --load altered.safetensors
done

# ---- Files of holes --------------------------------------------------------------------------------

if truncate -s 8T holes 2>/dev/null; then
    refuse 1 "holes has [0-9]* bytes, more than" "${common[@]}" --load holes
    mkdir data
    for file in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
        ln holes data/$file-ubyte
    done
    refuse 1 "no memory for the [0-9]* bytes of data/" --dataset idx --data data --devices cpu:threads=1
    rm -rf folder
    mkdir folder
    ln holes folder/checkpoint-000000001.safetensors
    refuse 2 "folder has the checkpoints" "${common[@]}" --checkpoint folder
    refuse_late "no checkpoint in folder is sound" "${common[@]}" --checkpoint folder --resume --log log
fi
mkfifo pipe
refuse 1 "pipe: it is no" "${common[@]}" --load pipe

# ---- Plug-ins ---------------------------------------------------------------------------------------

# A backend of another name, which is there for those whom the environment may tell.
mkdir plugins
cp "$(dirname "$(command -v "$DPTRAIN")")/../lib/dptrain/libdptrain-cpu.so" plugins/libdptrain-planted.so
DPTRAIN_BACKEND_PATH=$PWD/plugins "$DPTRAIN" devices --no-measure >devices.out 2>&1
check "the environment's plug-in is there" grep -q planted devices.out
cp plugins/libdptrain-planted.so .
"$DPTRAIN" devices --no-measure >devices.out 2>&1
check "that of the folder one stands in is not" test -z "$(grep planted devices.out)"
rm libdptrain-planted.so
# Another user who runs it sees that too, unless it is set to be run as that user.
as_another() { DPTRAIN_BACKEND_PATH=$PWD/plugins "$@" ./dptrain-as-another devices --no-measure 2>&1; }
if [ "$(id -u)" = 0 ] && cp "$DPTRAIN" dptrain-as-another && chown 65534 dptrain-as-another &&
    chmod 755 . plugins dptrain-as-another &&
    as_another setpriv --reuid=65534 --clear-groups | grep -q planted; then
    chmod 4755 dptrain-as-another
    as_another env >devices.out
    check "a set-user-ID program runs" grep -q cpu devices.out
    check "and looks for plug-ins in its own installation" test -z "$(grep planted devices.out)"
fi
finish
