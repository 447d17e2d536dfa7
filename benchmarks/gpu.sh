#!/usr/bin/env bash
# The GPU suite: tests, then the bench, into one JSON. Installs nothing and needs no network: one GPU, 5 minutes.
#
#   benchmarks/gpu.sh [OUTPUT.json]     default: benchmarks/results/<name of the device>.json
#
# PYTHON says which interpreter; else .venv/bin/python of the checkout where there is one, or python3. It must
# have ptxtemplates[all,test]. Exit code: 0 all is well, 1 a test failed, 2 there is no GPU (nothing is written
# then), or the tests or the bench did not come to their end. What failed is in the JSON.
set -uo pipefail

output=${1:-}
case $output in
    "" | /*) ;;
    *) output=$PWD/$output ;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2

python=${PYTHON:-}
if [ -z "$python" ]; then
    python=python3
    [ -x .venv/bin/python ] && python=.venv/bin/python
fi

# prints the reason where there is no GPU
default=$("$python" -m benchmarks.gpu_report where) || exit 2
output=${output:-$default}

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

# a kernel that does not end must not hold the machine for ever
limit=(timeout --foreground --kill-after=10 900)

started=$SECONDS
"${limit[@]}" "$python" -m pytest tests/gpu/test_device.py tests/gpu/test_instructions.py \
    -m gpu --require-gpu --gpu-report="$work/tests.json"
tests=$?
tests_s=$((SECONDS - started))

started=$SECONDS
"${limit[@]}" "$python" -m ptxtemplates bench --json >"$work/bench.json"
bench=$?
bench_s=$((SECONDS - started))

"$python" -m benchmarks.gpu_report merge \
    --tests "$work/tests.json" --tests-exit-code "$tests" --tests-seconds "$tests_s" \
    --bench "$work/bench.json" --bench-exit-code "$bench" --bench-seconds "$bench_s" \
    "$output"
