#!/usr/bin/env bash
# Runs the benchmarks and prints what they measured beside what is meant to be:
#   scripts/bench.sh [--output table|json] [--run REGEXP]
# Those of a million dead letters run where --run names them: 'Count|Million'.
# An hour of other work on the machine changes times; the ratios it changes little.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go build -o "$dir/bench" ./scripts/bench # go run would turn every exit code into 1
"$dir/bench" "$@"
