#!/usr/bin/env bash
# Short trainings on a card under NVIDIA's compute-sanitizer: no access outside of what is allocated,
# no race within a block.
. "$SRC/tests/cli/kit.bash"

"$DPTRAIN" devices --no-measure | grep -q '^cuda:0 ' || absent cuda "there is no NVIDIA card"
# In the toolkit's folder where it is not installed with the other commands.
PATH=$PATH:/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer
command -v compute-sanitizer >/dev/null 2>&1 || absent compute-sanitizer "there is no compute-sanitizer"

# What NVIDIA's libraries call their kernels.  Racecheck does not see all that keeps them apart: in cuDNN
# 9.19's for compute capability 9.0, which wait at barriers in shared memory, it reports hazards.  (Left
# out of what it looks at, it ends with an error of its own.)
theirs='access at .*(cudnn|cublas|cutlass|xmma|nvjet)'

# judge OUT: what is wrong with what the tool has printed, at most 20 lines of it; nothing if all that it
# counts are hazards in those kernels.
judge() {
    awk -v theirs="$theirs" '
        $2 ~ /^(ERROR|RACECHECK)$/ && $3 == "SUMMARY:" { looked = 1; counted = $4 }
        !/^=+ (Error|Warning): Race reported between / { next }
        $0 ~ theirs { n_theirs++; next }
        n_shown++ < 20
        END {
            if (!looked)
                print "it has not looked"
            else if (counted + 0 != n_theirs + 0)
                print counted " were found, of which " n_theirs + 0 " are in kernels of libraries"
        }' "$1"
}

# clean TOOL ARGUMENT...: a training that the tool finds nothing in.
clean() {
    local tool=$1 what
    shift
    checks=$((checks + 1))
    if ! compute-sanitizer --tool "$tool" --print-limit 0 "$DPTRAIN" train "$@" >out 2>&1 </dev/null; then
        fail "$tool: dptrain train $*: $(sed -n '/=========\|^dptrain:/p' out | sed -n 1,20p)"
        return
    fi
    what=$(judge out)
    [ -z "$what" ] || fail "$tool: dptrain train $*: $what: $(tail -n 5 out)"
}

lenet=(--model lenet --dataset synthetic:28x28x1:10:100 --batch-size 32)
resnet=(--model resnet18 --dataset synthetic:16x16x3:10:40 --batch-size 16)
# Of ResNet-18 now this way and now that: timing them all under the tools would take many minutes.
# Two epochs where a recorded step is to run again; each ends with a shorter batch.
for precision in fp32 bf16; do
    clean memcheck --devices cuda:0 --precision $precision --epochs 2 "${lenet[@]}"
    clean memcheck --devices cuda:0:algorithm=any --precision $precision --epochs 2 "${resnet[@]}"
done
clean memcheck --devices cuda:0,cuda:0 --epochs 1 "${lenet[@]}"
clean memcheck --devices cuda:0,cpu --split 5:1 --epochs 1 "${lenet[@]}"
clean racecheck --devices cuda:0 --epochs 1 "${lenet[@]}"
clean racecheck --devices cuda:0:algorithm=any --precision bf16 --epochs 1 "${resnet[@]}"
# Kernels that stand behind the libraries'.
for tool in memcheck racecheck; do
    clean $tool --devices cuda:0:algorithm=local --epochs 1 "${resnet[@]}"
done
finish
