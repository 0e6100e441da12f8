#!/usr/bin/env bash
# Runs the benchmarks and prints what they measured beside what is meant to be:
#   scripts/bench.sh [--output table|json] [--run REGEXP]
# An hour of other work on the machine changes times; the ratios it changes little.
set -euo pipefail
cd "$(dirname "$0")/.."
exec go run ./scripts/bench "$@"
