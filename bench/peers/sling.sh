# The report with Sling, which loads files. Run by bench/peers/run.ts.
. "$(dirname "$0")/download.sh"
export PEER="$PEER_DATABASE?sslmode=disable"
"$PEER_PROGRAM" run --src-stream "file://$PEER_FOLDER/referrals.csv" --tgt-conn PEER --tgt-object peer.referrals \
  --mode incremental --primary-key date,domain,country,referrer
