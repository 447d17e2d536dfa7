#!/usr/bin/env bash
# The GPU suite: tests, then the bench, into one JSON. Installs nothing and needs no network: one GPU, 5 minutes.
#
#   benchmarks/gpu.sh [OUTPUT.json]     default: benchmarks/results/<name of the device>.json
#
# PYTHON says which interpreter; else .venv/bin/python of the checkout where there is one, or python3. It must
# have ptxtemplates[all,test]. Exit code: 0 all is well, 1 a test failed, 2 there is no GPU or it was interrupted
# (nothing is written then), or the tests or the bench did not come to their end. What failed is in the JSON;
# a file with whole results is not replaced by results that are not, which go to NAME.failed.json beside it.
#
# The bench is that of one shape of a model, Llama 3 8B's: `ptxtemplates bench --json` measures the whole list.
set -uo pipefail

readonly all_s=290     # of all, with what comes before and behind
readonly tests_s=180   # of that for the tests, at most
readonly kernels=(
    batched_rope.h32.d128.theta500000
    batched_rope_backward.h32.d128.theta500000
    flash_decoding_chunk.d128.h32.c128.kv8.s131072
    flash_decoding_reduce.d128.h32.c128
    flash_decoding.d128.h32.c128.kv8.s131072
)

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
# pytest and the bench end by themselves then, as if they had failed
trap 'echo "error: interrupted; nothing is written" >&2; exit 2' INT TERM

# a kernel that does not end must not hold the machine for ever; the first signal is one to report what there is
limited() {
    timeout --foreground --kill-after=5 "$@"
}

started=$SECONDS
limited "$tests_s" "$python" -m pytest tests/gpu/test_device.py tests/gpu/test_instructions.py \
    -m gpu --require-gpu --gpu-report="$work/tests.json"
tests=$?
tests_took=$((SECONDS - started))

started=$SECONDS
limited "$((all_s - 10 - SECONDS))" "$python" -m ptxtemplates bench --json \
    "${kernels[@]/#/--kernel=}" >"$work/bench.json"
bench=$?
bench_took=$((SECONDS - started))

"$python" -m benchmarks.gpu_report merge \
    --tests "$work/tests.json" --tests-exit-code "$tests" --tests-seconds "$tests_took" \
    --bench "$work/bench.json" --bench-exit-code "$bench" --bench-seconds "$bench_took" \
    "$output"
