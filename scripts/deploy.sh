#!/usr/bin/env bash
# Deploys everything with Serverless Devs, then makes what ROS cannot (lifecycle
# rules, the doctor's table) and looks whether it is safe.
#   scripts/deploy.sh [-a ACCESS]
# Who runs it has the rights of scripts/ram/deployer.json, the first time those of
# scripts/infra/founder.json too.
set -euo pipefail
cd "$(dirname "$0")/.."

access=default
while getopts a: flag; do
  case $flag in
    a) access=$OPTARG ;;
    *) echo "usage: scripts/deploy.sh [-a ACCESS]" >&2; exit 2 ;;
  esac
done

fail=0
complain() { echo "scripts/deploy.sh: $1" >&2; fail=1; }
command -v go >/dev/null || complain "Go is needed to build: https://go.dev/dl"
command -v s >/dev/null || complain "Serverless Devs is needed: npm install -g @serverless-devs/s@3.1.10, then s config add"
for name in ONCEGATE_ENVIRONMENT ONCEGATE_MODEL_NAME ONCEGATE_MODEL_API_KEY ONCEGATE_KEY_SECRET; do
  [ -n "${!name:-}" ] || complain "set $name (docs/DEPLOY.md says what it is)"
done
if [ -n "${ONCEGATE_ENVIRONMENT:-}" ] && ! [[ $ONCEGATE_ENVIRONMENT =~ ^[a-z][-a-z0-9]{0,11}[a-z0-9]$ ]]; then
  complain "ONCEGATE_ENVIRONMENT must be 2 to 13 of a-z, 0-9 and -, beginning with a letter"
fi
if [ "${ONCEGATE_ENVIRONMENT:-}" = default ]; then
  complain "ONCEGATE_ENVIRONMENT cannot be default: the environment names the bus, and default is EventBridge's own"
fi
if [ -n "${ONCEGATE_KEY_SECRET:-}" ] && [ ${#ONCEGATE_KEY_SECRET} -lt 32 ]; then
  complain "ONCEGATE_KEY_SECRET must have at least 32 characters"
fi
[ $fail = 0 ] || exit 2

region=${ONCEGATE_REGION:-cn-hangzhou}
ONCEGATE_ACCESS=$access s deploy -y -a "$access"
if [ -n "${ONCEGATE_ALARM_CONTACT_GROUP:-}" ]; then
  s deploy -t scripts/alarms/s.yaml -y -a "$access"
else
  echo "no alarm on the queue: make a contact group in CloudMonitor, set ONCEGATE_ALARM_CONTACT_GROUP and run this again" >&2
fi

# From here the commands use ALIBABA_CLOUD_ACCESS_KEY_ID and _SECRET, since
# Serverless Devs gives its keys to nobody.
if [ -z "${ALIBABA_CLOUD_ACCESS_KEY_ID:-}" ] || [ -z "${ONCEGATE_ACCOUNT:-}" ]; then
  cat <<TEXT
Deployed. Two steps are left; set ALIBABA_CLOUD_ACCESS_KEY_ID, ALIBABA_CLOUD_ACCESS_KEY_SECRET and ONCEGATE_ACCOUNT
(the number of the account) and run this again, or run them yourself:
  oncegate setup --target cloud
  oncegate doctor --target cloud
TEXT
  exit 0
fi
export ONCEGATE_REGION=$region
export ONCEGATE_TABLESTORE_ENDPOINT=https://og-$ONCEGATE_ENVIRONMENT.$region.ots.aliyuncs.com
export ONCEGATE_TABLESTORE_INSTANCE=og-$ONCEGATE_ENVIRONMENT
export ONCEGATE_OSS_ENDPOINT=https://oss-$region.aliyuncs.com
export ONCEGATE_OSS_BUCKET=oncegate-$ONCEGATE_ENVIRONMENT-$ONCEGATE_ACCOUNT
oncegate() { go run ./cmd/oncegate "$@"; }
oncegate setup --target cloud
oncegate doctor --target cloud
