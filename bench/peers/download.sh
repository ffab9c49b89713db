# What tools that load files need before: submits the report, polls it, downloads its file. Sourced by sling.sh and ingestr.sh.
set -euo pipefail
value() { python3 -c 'import json, sys; print(json.load(sys.stdin).get(sys.argv[1], ""))' "$1"; }
report=$(curl -fsS -X POST "$PEER_SERVICE/batch/v4/request-report" -H "api-key: $PEER_KEY" -H 'Content-Type: application/json' -d "$PEER_REQUEST" | value report_id)
while :; do
  answer=$(curl -fsS "$PEER_SERVICE/v3/batch/request-status/$report" -H "api-key: $PEER_KEY")
  [ "$(value status <<<"$answer")" = completed ] && break
  sleep 0.2
done
curl -fsS "$(value download_url <<<"$answer")" -o "$PEER_FOLDER/referrals.csv"
