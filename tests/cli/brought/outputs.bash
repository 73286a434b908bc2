# Weights that are finite, and whose sums are not.
row "weights whose outputs overflow" \
    "predict and eval name the image and exit with 1; never a probability"

set=(--dataset folder:8x8 --data photos)
small=("${set[@]}" --model linear --devices cpu:threads=1)
pictures photos
train "${small[@]}" --max-steps 2 --checkpoint small
weights small/model.safetensors huge.safetensors set=fc.weight:0:3e38 set=fc.weight:1:3e38 set=fc.weight:2:3e38
bright=photos/test/red/0.png
refuse 1 "$bright: the outputs of the network are not finite, and tell no class" \
    predict "${small[@]}" --checkpoint huge.safetensors $bright
refuse 1 "photos/test/red/0.png: neither the outputs of the network nor the loss are finite" \
    eval "${small[@]}" --checkpoint huge.safetensors
"$DPTRAIN" predict "${small[@]}" --checkpoint huge.safetensors photos/test/black.ppm $bright >both.out 2>both.err
check "exit status 1" test $? -eq 1
check "an image whose outputs are finite is printed before: $(cat both.out)" \
    test "$(grep -c '^photos/test/black.ppm: ' both.out)-$(wc -l <both.out)" = 1-1
check "and nothing is nan: $(cat both.out both.err)" test -z "$(grep -i '[ :]nan' both.out)"
