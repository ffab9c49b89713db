#!/usr/bin/env bash
# `bash test/clients/dbt.sh`: installs dbt with MetricFlow from PyPI into a folder of its own and runs the tests of the semantic files with it: dbt parse, dbt
# build and compiled metrics on a loaded warehouse. MILLRACE_DBT_HOME names the folder (default: millrace-dbt in the temporary folder), which is kept.
set -euo pipefail
cd "$(dirname "$0")/../.."
home=${MILLRACE_DBT_HOME:-${TMPDIR:-/tmp}/millrace-dbt}
mkdir -p "$home"
if [ ! -x "$home/venv/bin/mf" ]; then
  python3 -m venv "$home/venv"
  # dbt-core 1.11 and later fetch a part from elsewhere than PyPI while they are installed.
  "$home/venv/bin/pip" install --quiet --no-input dbt-core==1.10.23 dbt-postgres==1.10.2 dbt-metricflow==0.13.0
fi
MILLRACE_DBT_BIN="$home/venv/bin" npx vitest run --project nightly test/e2e/semantic.test.ts
