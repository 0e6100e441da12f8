#!/usr/bin/env bash
# Publishes the deployed code of a function as a version and points its alias
# live to it. `s deploy` runs it after each function.
#   scripts/release.sh FUNCTION REGION
set -euo pipefail
if [ $# -ne 2 ]; then
  echo "usage: scripts/release.sh FUNCTION REGION" >&2
  exit 2
fi
access=${ONCEGATE_ACCESS:-default}
s cli fc3 version publish --region "$2" --function-name "$1" --description "oncegate deploy" -a "$access"
s cli fc3 alias publish --region "$2" --function-name "$1" --alias-name live --version-id latest -a "$access"
