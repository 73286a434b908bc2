#!/usr/bin/env bash
# What people bring, as it is: weights, pictures, labels, and machines that grant less than they have.  It prints a
# table: what is brought, what is right, and how many checks of it hold.  The parts are in brought/; the files that
# are brought are made here.
. "$SRC/tests/cli/kit.bash"
need_python

# Each prints its usage at the head of its file.
weights() { python3 "$SRC/tests/cli/brought/weights.py" "$@"; }
pth() { python3 "$SRC/tests/cli/brought/pth.py" "$@"; }
pictures() { python3 "$SRC/tests/cli/brought/pictures.py" "$@"; }
make() { python3 "$SRC/tests/cli/brought/data.py" "$@"; }

# losses LOG: the losses of the steps.
losses() {
    python3 -c "import json, sys
print([line['loss'] for line in map(json.loads, open(sys.argv[1])) if line['event'] == 'step'])" "$1"
}

# falls LOG PART: the last loss is less than this part of the first.
falls() {
    python3 -c "import json, sys
l = [x['loss'] for x in map(json.loads, open(sys.argv[1])) if x['event'] == 'step']
sys.exit(not l[-1] < float(sys.argv[2]) * l[0])" "$1" "$2"
}

# row BROUGHT RIGHT: the checks that follow are of this row of the table.
row() {
    end_row
    brought=$1 right=$2 row_checks=$checks row_failures=$failures
}

end_row() {
    [ -z "${brought-}" ] || printf '%-60s %-84s %2d of %2d\n' "$brought" "$right" \
        $((checks - row_checks - failures + row_failures)) $((checks - row_checks))
    brought=
}

# Without libpng dptrain reads no pictures, and has tests for that.
parts=(weights outputs pictures folders losses machine signals labels)
pictures probe
if [[ $("$DPTRAIN" train --dataset folder:8x8 --data probe --model linear --max-steps 1 2>&1) == *"was built without"* ]]; then
    echo "without pictures: dptrain was built without libpng"
    parts=(weights losses machine signals labels)
fi

for part in "${parts[@]}"; do
    mkdir "$part"
    cd "$part" || exit
    # shellcheck source=/dev/null
    . "$SRC/tests/cli/brought/$part.bash"
    end_row
    cd ..
done
finish
