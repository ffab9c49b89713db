#!/usr/bin/env bash
# `bash test/clients/prepare.sh DIR`: installs into DIR what test/clients/run.ts and the tests need of other people's clients, and writes their settings to
# DIR/environment. What cannot be had (a registry that does not answer, no rights, no Java) is said and left out; that is no failure.
set -uo pipefail
home=$1
mkdir -p "$home"
: > "$home/environment"
left_out() { printf '%s is left out: %s\n' "$1" "$2"; }

# The versions docs/bi.md was written with.
python_packages=(sqlalchemy==2.1.9 'psycopg[binary]==3.3.9' pyodbc==5.5.0)
pgjdbc=https://repo1.maven.org/maven2/org/postgresql/postgresql/42.7.4/postgresql-42.7.4.jar

if ! python3 -m venv --without-pip "$home/venv" > "$home/python.log" 2>&1; then
  left_out 'SQLAlchemy' "python3 makes no environment ($(tail -n 1 "$home/python.log"))"
elif ! timeout 90 python3 -m pip --python "$home/venv/bin/python" install --quiet --no-input --disable-pip-version-check --retries 1 \
  "${python_packages[@]}" >> "$home/python.log" 2>&1; then
  if grep -qiE 'connection|timed out|resolution' "$home/python.log"; then why='PyPI does not answer'; else why=$(tail -n 1 "$home/python.log"); fi
  left_out 'SQLAlchemy' "its packages could not be installed ($why)"
else
  echo "MILLRACE_CLIENTS_PYTHON=$home/venv/bin/python" >> "$home/environment"
fi

# Readers of Parquet: an export has to give them the sums that PostgreSQL has.
lake_packages=(pyarrow==26.0.1 duckdb==2.0.0)
if grep -q PYTHON "$home/environment"; then
  if timeout 120 python3 -m pip --python "$home/venv/bin/python" install --quiet --no-input --disable-pip-version-check --retries 1 "${lake_packages[@]}" > "$home/lake.log" 2>&1; then
    echo "MILLRACE_CLIENTS_LAKE=$home/venv/bin/python" >> "$home/environment"
  else
    left_out 'DuckDB and pyarrow' "their packages could not be installed ($(tail -n 1 "$home/lake.log"))"
  fi
fi

# The official schema of data contracts, and what checks a file by it; the official client of lineage, whose types are made from its schema.
if grep -q PYTHON "$home/environment"; then
  if timeout 60 python3 -m pip --python "$home/venv/bin/python" install --quiet --no-input --disable-pip-version-check --retries 1 jsonschema==4.26.0 pyyaml==6.0.4 openlineage-python==1.54.0 > "$home/contract.log" 2>&1 &&
    timeout 60 python3 -m pip --python "$home/venv/bin/python" install --quiet --no-input --disable-pip-version-check --retries 1 --no-deps open-data-contract-standard==3.2.0 >> "$home/contract.log" 2>&1; then
    echo "MILLRACE_CLIENTS_CONTRACT=$home/venv/bin/python" >> "$home/environment"
  else
    left_out 'The schemas of data contracts and lineage' "its packages could not be installed ($(tail -n 1 "$home/contract.log"))"
  fi
fi

has_odbc_driver() { grep -qs '^\[PostgreSQL Unicode\]' /etc/odbcinst.ini; }
# Some builds of pyodbc bring the driver manager, others want the system's.
has_odbc_manager() { "$home/venv/bin/python" -c 'import pyodbc' > /dev/null 2>&1; }
if ! { has_odbc_driver && has_odbc_manager; } && command -v apt-get > /dev/null && [ "$(id -u)" = 0 ]; then
  timeout 60 apt-get update -qq > "$home/odbc.log" 2>&1 && timeout 60 apt-get install -y -qq --no-install-recommends odbc-postgresql odbcinst libodbc2 >> "$home/odbc.log" 2>&1
fi
if ! grep -q PYTHON "$home/environment"; then
  left_out 'psqlodbc' 'pyodbc could not be installed'
elif ! has_odbc_driver; then
  left_out 'psqlodbc' 'the system has no odbc-postgresql and it could not be installed'
elif ! has_odbc_manager; then
  left_out 'psqlodbc' 'pyodbc finds no driver manager (libodbc.so.2)'
else
  echo "MILLRACE_CLIENTS_ODBC=$home/venv/bin/python" >> "$home/environment"
fi

# A compiler too, since the client is run from its source.
if ! java --list-modules 2> /dev/null | grep -q '^jdk.compiler'; then
  left_out 'pgjdbc' 'there is no Java Development Kit on the path'
elif ! curl -fsS -m 30 -o "$home/pgjdbc.jar" "$pgjdbc" 2> "$home/pgjdbc.log"; then
  left_out 'pgjdbc' "Maven does not give it ($(tail -n 1 "$home/pgjdbc.log"))"
else
  echo "MILLRACE_CLIENTS_PGJDBC=$home/pgjdbc.jar" >> "$home/environment"
fi
