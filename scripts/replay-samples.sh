#!/usr/bin/env bash
# Publishes the sample events to the deployed bus, each in a call of its own.
# What no bus takes (a malformed file) is named and left out.
#   scripts/replay-samples.sh [FILE...]
set -euo pipefail
cd "$(dirname "$0")/.."
[ -n "${ONCEGATE_EVENTBRIDGE_ENDPOINT:-}" ] || {
  echo "scripts/replay-samples.sh: set ONCEGATE_EVENTBRIDGE_ENDPOINT, https://ACCOUNT.eventbridge.REGION.aliyuncs.com, and ONCEGATE_ENVIRONMENT" >&2
  exit 2
}
[ $# -gt 0 ] || set -- events/samples/*.json
left=()
for file in "$@"; do
  if go run ./cmd/oncegate publish --target cloud "$file"; then :; else
    code=$?
    [ $code = 1 ] || [ $code = 2 ] || exit $code
    left+=("$file")
  fi
done
printf 'not published, since no bus takes them: %s\n' "${left[*]:-none}"
