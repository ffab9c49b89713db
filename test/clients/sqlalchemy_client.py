# What SQLAlchemy 2 tells a tool of the schema bi (Superset, Metabase's notebooks, pandas): printed as JSON for run.ts.
import json
import sys

import sqlalchemy as sa

url, row_query = sys.argv[1], sys.argv[2]
engine = sa.create_engine(url.replace("postgres://", "postgresql+psycopg://").replace("postgresql://", "postgresql+psycopg://"))
inspector = sa.inspect(engine)
relations = {}
for kind, names in (("table", inspector.get_table_names("bi")), ("view", inspector.get_view_names("bi"))):
    for name in names:
        relations[name] = {
            "kind": kind,
            "comment": inspector.get_table_comment(name, "bi")["text"],
            "columns": [
                {"name": one["name"], "type": str(one["type"]), "comment": one.get("comment")}
                for one in inspector.get_columns(name, "bi")
            ],
            "primaryKey": inspector.get_pk_constraint(name, "bi")["constrained_columns"] if kind == "table" else [],
            "foreignKeys": [
                f"{','.join(one['constrained_columns'])} -> {one['referred_schema']}.{one['referred_table']}({','.join(one['referred_columns'])})"
                for one in (inspector.get_foreign_keys(name, "bi") if kind == "table" else [])
            ],
        }
with engine.connect() as connection:
    row = connection.execute(sa.text(row_query)).one()
values = [None if one is None else [type(one).__name__, str(one)] for one in row]
print(json.dumps({"client": f"SQLAlchemy {sa.__version__}, psycopg", "relations": relations, "values": values}))
