#!/usr/bin/env bash
# `bash test/clients/superset.sh`: installs Superset from PyPI into a folder of its own, starts it, runs the tests of `millrace superset` on it, and stops it.
# SCREENSHOTS=docs/pictures draws the pictures of the dashboards anew. The first time takes minutes and 1 GB; MILLRACE_SUPERSET_HOME names the folder (default: millrace-superset in the temporary folder), which is kept.
set -euo pipefail
cd "$(dirname "$0")/../.."
home=${MILLRACE_SUPERSET_HOME:-${TMPDIR:-/tmp}/millrace-superset}
port=${MILLRACE_SUPERSET_PORT:-18090}
mkdir -p "$home"
if [ ! -x "$home/venv/bin/superset" ]; then
  python3 -m venv "$home/venv"
  # rich and cachetools are missing from its own list; flask-caching 2.5 breaks it.
  "$home/venv/bin/pip" install --quiet --no-input apache-superset==6.1.0 psycopg2-binary gunicorn rich cachetools flask-caching==2.3.1
fi
rm -rf "$home/data"
mkdir "$home/data"
export PATH="$home/venv/bin:$PATH" FLASK_APP=superset SUPERSET_HOME="$home/data"
# On a busy machine its log and a change meet: one waits for the other instead of failing.
export SUPERSET__SQLALCHEMY_DATABASE_URI="sqlite:///$home/data/superset.db?timeout=120"
SUPERSET_SECRET_KEY=$(python3 -c 'import secrets; print(secrets.token_hex(32))')
password=$(python3 -c 'import secrets; print(secrets.token_hex(12))')
export SUPERSET_SECRET_KEY
{
  superset db upgrade
  superset fab create-admin --username admin --firstname Test --lastname Test --email test@localhost.localdomain --password "$password"
  superset init
} > "$home/setup.log" 2>&1 || { tail -20 "$home/setup.log" >&2; exit 1; }
gunicorn --bind "127.0.0.1:$port" --workers 2 --worker-class gthread --threads 4 --timeout 120 --keep-alive 600 "superset.app:create_app()" > "$home/server.log" 2>&1 &
server=$!
trap 'kill "$server"' EXIT
for _ in $(seq 120); do
  if curl -fsS -m 2 "http://127.0.0.1:$port/health" > /dev/null 2>&1; then break; fi
  sleep 1
done
MILLRACE_SUPERSET_BIN="$home/venv/bin" MILLRACE_SUPERSET_URL="http://127.0.0.1:$port" MILLRACE_SUPERSET_PASSWORD="$password" npx vitest run --project long test/e2e/analysts.test.ts "$@"
