#!/bin/sh
# Loads what is due, then writes the months that changed as Parquet. LAKE is a folder, or a bucket like s3://lake/keywords.
set -eu
# 1: some units failed or wait for approval. What is loaded is exported all the same, and the script ends with 1.
npx millrace run && ended=0 || ended=$?
[ "$ended" -le 1 ] || exit "$ended"
npx millrace export keywords --by month --since last --format parquet --out "$LAKE"
exit "$ended"
