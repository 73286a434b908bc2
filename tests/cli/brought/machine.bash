# What the machine grants, and what it says before it ends a training.
row "a CPU quota, a set of cores (control groups 1 and 2)" \
    "as many threads as are granted, told in the header"

# The tree of control groups is a folder of this test; a process of several cores gets one of them.
groups=$PWD/groups
mkdir -p "$groups"/{half,many,cpu/job,cpuset/job}
echo "50000 100000" >"$groups/half/cpu.max"
echo "99900000 100000" >"$groups/many/cpu.max"
echo 100000 >"$groups/cpu/job/cpu.cfs_quota_us"
echo 100000 >"$groups/cpu/job/cpu.cfs_period_us"
echo 0 >"$groups/cpuset/job/cpuset.effective_cpus"
cores=$(nproc)
# threads_of GROUPS: what the header says of the device.
threads_of() {
    printf '%b' "$1" >"$groups/self"
    DPTRAIN_TEST_CONTROL_GROUPS=$groups "$DPTRAIN" train --dataset synthetic:8x8x1:3:16 --model linear \
        --devices cpu --max-steps 1 2>&1 | grep "^devices"
}
if [ "$cores" -gt 1 ]; then
    for group in "0::/half\n" "4:cpuacct,cpu:/job\n" "3:cpuset:/job\n"; do
        told=$(threads_of "$group")
        check "one thread of $group: $told" grep -q ", 1 thread (.*not bound: its control group grants 1 of $cores cores" <<<"$told"
        check "devices says so too" grep -qE "^cpu .* 1 .*GiB" \
            <(DPTRAIN_TEST_CONTROL_GROUPS=$groups "$DPTRAIN" devices --no-measure 2>&1)
    done
fi
told=$(threads_of "0::/many\n")
check "more than there is limits nothing: $told" grep -q "bound to cores" <<<"$told"
told=$(threads_of "0::/nowhere\n")
check "and neither does no quota: $told" grep -q "bound to cores" <<<"$told"
printf '0::/half\n' >"$groups/self"
check "threads that are asked for are taken" grep -q ", 2 threads" <(DPTRAIN_TEST_CONTROL_GROUPS=$groups \
    "$DPTRAIN" train --dataset synthetic:8x8x1:3:16 --model linear --devices cpu:threads=2 --max-steps 1 2>&1)
