#!/usr/bin/env bash
# Removes what `s deploy` made, but for what holds data: rule, functions with
# their stream, bus and roles go; tables, bucket and dead-letter queue stay, with
# every record, output and letter. No option deletes data: that is done by hand.
#   scripts/teardown.sh [-a ACCESS] --environment NAME
set -euo pipefail
cd "$(dirname "$0")/.."

access=default environment=
while [ $# -gt 0 ]; do
  case $1 in
    -a) access=${2:?-a needs a name}; shift 2 ;;
    --environment) environment=${2:?--environment needs a name}; shift 2 ;;
    *) echo "usage: scripts/teardown.sh [-a ACCESS] --environment NAME" >&2; exit 2 ;;
  esac
done
if [ -z "$environment" ] || [ "$environment" != "${ONCEGATE_ENVIRONMENT:-}" ]; then
  echo "scripts/teardown.sh: say which: --environment must equal ONCEGATE_ENVIRONMENT (${ONCEGATE_ENVIRONMENT:-not set})" >&2
  exit 2
fi
cat <<TEXT
This removes from environment $environment: the rule, the functions oncegate-tasks and oncegate-intake with their versions and the
event stream, the bus, and the RAM roles. Events that are published from now on are lost.
It does NOT delete: Tablestore instance og-$environment, bucket oncegate-$environment-ACCOUNT, queue oncegate-dead-letters-$environment.
TEXT
if [ -t 0 ]; then read -r -p "Type the environment's name to go on: " typed; else read -r typed || typed=; fi
if [ "$typed" != "$environment" ]; then
  echo "nothing was removed" >&2
  exit 3
fi
if [ -n "${ONCEGATE_ALARM_CONTACT_GROUP:-}" ]; then
  echo "removing alarms"
  s remove -t scripts/alarms/s.yaml -y -a "$access"
fi
# Last made, first removed. A step that fails stops here; run this again.
for resource in routing intake tasks bus roles; do
  echo "removing $resource"
  s "$resource" remove -y -a "$access"
done
cat <<TEXT
Removed. Data is still there, and costs what it costs. To delete it too, look first at what is open:
  oncegate dlq status --target cloud && oncegate review list --target cloud
then delete the bucket, the instance and the queue in the console. Nobody can bring them back.
TEXT
