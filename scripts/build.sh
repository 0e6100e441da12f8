#!/usr/bin/env bash
# Builds the function for Function Compute (runtime go1, linux/amd64) into
# target/function/main, or into a zip where a name is given:
#   scripts/build.sh [function.zip]
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p target/function
CGO_ENABLED=0 GOOS=linux GOARCH=amd64 go build -trimpath -buildvcs=false -ldflags '-s -w -buildid=' -o target/function/main ./cmd/function
echo "target/function/main $(wc -c <target/function/main) bytes"
if [ $# -gt 0 ]; then
  go run ./scripts/zip "$1" target/function/main
  echo "$1 $(wc -c <"$1") bytes"
fi
