# The report with ingestr, which loads files. Run by bench/peers/run.ts.
. "$(dirname "$0")/download.sh"
"$PEER_PROGRAM" ingest --yes --progress log --source-uri "csv://$PEER_FOLDER/referrals.csv" --source-table referrals \
  --dest-uri "$PEER_DATABASE?sslmode=disable" --dest-table peer.referrals --incremental-strategy merge \
  --primary-key date --primary-key domain --primary-key country --primary-key referrer
