#!/usr/bin/env bash
# How much of what reads files, folders, command lines and device lists is run by its unit tests and
# by the fuzzers' kept corpora: a table of lines a file, and each line that is not run.  Fails if it
# is less than 95 % of all, or of any file less than 85 %.
#
#     scripts/coverage.sh [FOLDER]      builds in FOLDER (default build-coverage) with gcc
#
# What follows from a failed allocation is counted and shown as a column of its own: nothing here
# makes allocations fail.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

parsers=(core/base/text.c core/data/cifar.c core/data/class_names.c core/data/csv.c core/data/idx.c core/data/image.c
    core/data/image_bmp.c core/data/image_gif.c core/data/image_jpeg.c core/data/image_png.c
    core/data/image_pnm.c core/data/image_tiff.c core/data/image_webp.c core/data/exif.c
    core/data/folder_name.c core/data/picture_files.c core/data/listing.c
    core/data/picture.c core/data/picture_folder.c core/data/picture_list.c core/data/picture_table.c core/data/scale.c core/data/source.c
    core/data/synthetic.c core/device/devstring.c core/device/select.c core/io/file.c
    core/io/folder.c core/io/pickle.c core/io/pth.c core/io/zip.c core/io/replay.c core/io/safetensors.c core/checkpoint/run_state.c
    core/onnx/arena.c core/onnx/facts.c core/onnx/infer.c core/onnx/infer_state.c core/onnx/model.c
    core/onnx/names.c core/onnx/read_attributes.c core/onnx/read_external.c core/onnx/read_link.c
    core/onnx/read_nodes.c core/onnx/read_sort.c core/onnx/read_tensor.c core/onnx/reader.c
    core/onnx/wire.c core/balance/split.c cli/parse.c cli/values.c backends/common/cache.c backends/common/choices.c)
tests=(base choices cifar dataset devstring exif folder idx image image_formats log onnx_batch onnx_infer onnx_reader
    picture_folder safetensors scale split)

mkdir -p "${1:-build-coverage}" || exit 1
build=$(cd "${1:-build-coverage}" && pwd)
fuzzers=(tests/fuzz/fuzz_*.c)
fuzzers=("${fuzzers[@]#tests/fuzz/fuzz_}")
fuzzers=("${fuzzers[@]%.c}")

cmake -S . -B "$build" -G Ninja -DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=Debug \
    -DCMAKE_C_FLAGS="--coverage -O0" -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON \
    -DCMAKE_DISABLE_FIND_PACKAGE_OpenCL=ON -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON >"$build/log" 2>&1 &&
    cmake --build "$build" --target "${tests[@]/#/test-unit-}" "${fuzzers[@]/#/replay-}" \
        >>"$build/log" 2>&1 || { tail -n 40 "$build/log"; exit 1; }

find "$build" -name '*.gcda' -delete
rm -rf "$build/scratch"
mkdir -p "$build/scratch" && cd "$build/scratch" || exit 1
for name in "${tests[@]}"; do
    "$build/tests/bin/test-unit-$name" >"$build/scratch/$name.out" 2>&1 || {
        tail -n 20 "$build/scratch/$name.out"
        echo "coverage.sh: test-unit-$name fails"
        exit 1
    }
done
for name in "${fuzzers[@]}"; do
    "$build/tests/bin/replay-$name" "$OLDPWD/tests/fuzz/corpus/$name" >/dev/null || exit 1
done
cd "$OLDPWD" || exit 1

# A source may have been compiled several times: a line is run if it is in one of them.
find "$build" -name '*.gcda' -print0 |
    xargs -0 -n 1 gcov --json-format --stdout 2>/dev/null >"$build/lines.json"
python3 - "$PWD" "$build/lines.json" "${parsers[@]}" <<'PYTHON'
import json, os, sys

root, lines_path, parsers = sys.argv[1], sys.argv[2], sys.argv[3:]
count = {name: {} for name in parsers}
for text in open(lines_path):
    unit = json.loads(text)
    for file in unit["files"]:
        path = os.path.join(unit["current_working_directory"], file["file"])
        name = os.path.relpath(os.path.realpath(path), os.path.realpath(root))
        if name in count:
            for line in file["lines"]:
                number = line["line_number"]
                count[name][number] = max(count[name].get(number, 0), line["count"])


def runs(numbers):
    """Neighbours among the counted lines, as (first, last)."""
    result = []
    for number in numbers:
        if result and number - result[-1][1] <= 3:
            result[-1][1] = number
        else:
            result.append([number, number])
    return result


def is_memory(source, first, last):
    """Whether these lines are what follows from a failed allocation."""
    text = "".join(source[first - 2 : last + 3])
    return "NO_MEMORY" in text or "no_memory" in text or "no memory" in text or "fail_memory" in text


print("%-30s %6s %6s %9s %7s %9s" % ("file", "lines", "run", "per cent", "memory", "not run"))
bad, all_lines, all_run = False, 0, 0
for name in parsers:
    source = open(os.path.join(root, name)).readlines()
    lines = count[name]
    missed = sorted(number for number in lines if lines[number] == 0)
    memory = [r for r in runs(missed) if is_memory(source, *r)]
    n_memory = sum(1 for n in missed if any(first <= n <= last for first, last in memory))
    n, n_run = len(lines), len(lines) - len(missed)
    other = [n for n in missed if not any(first <= n <= last for first, last in memory)]
    share = 100 * n_run / n if n else 0
    bad = bad or share < 85
    all_lines, all_run = all_lines + n, all_run + n_run
    print("%-30s %6d %6d %9.1f %7d  %s" % (name, n, n_run, share, n_memory,
          " ".join("%d" % a if a == b else "%d-%d" % (a, b) for a, b in runs(other))))
share = 100 * all_run / all_lines if all_lines else 0
print("%-30s %6d %6d %9.1f" % ("all", all_lines, all_run, share))
if bad or share < 95:
    print("coverage.sh: less than 95 % of all lines, or 85 % of a file's, are run")
sys.exit(bad or share < 95)
PYTHON
