# What psqlodbc tells a tool of the schema bi (Excel, Power BI, Tableau over ODBC) through the catalog functions of ODBC: printed as JSON for run.ts.
import json
import sys
from urllib.parse import unquote, urlsplit

import pyodbc

url, row_query = urlsplit(sys.argv[1]), sys.argv[2]
# Row versioning aside, the settings a driver comes with; long text as it is.
connection = pyodbc.connect(
    f"DRIVER={{PostgreSQL Unicode}};SERVER={url.hostname};PORT={url.port or 5432};DATABASE={url.path[1:]};"
    f"UID={unquote(url.username)};PWD={unquote(url.password or '')};MaxLongVarcharSize=32766"
)
cursor = connection.cursor()
relations = {}
for one in cursor.tables(schema="bi").fetchall():
    relations[one.table_name] = {"kind": one.table_type.lower(), "comment": one.remarks, "columns": [], "primaryKey": [], "foreignKeys": []}
for name, relation in relations.items():
    relation["columns"] = [
        {"name": one.column_name, "type": one.type_name, "comment": one.remarks} for one in cursor.columns(table=name, schema="bi").fetchall()
    ]
    relation["primaryKey"] = [one.column_name for one in cursor.primaryKeys(table=name, schema="bi").fetchall()]
    relation["foreignKeys"] = [
        f"{one.fkcolumn_name} -> {one.pktable_schem}.{one.pktable_name}({one.pkcolumn_name})"
        for one in cursor.foreignKeys(foreignTable=name, foreignSchema="bi").fetchall()
    ]
row = cursor.execute(row_query).fetchone()
values = [None if one is None else [type(one).__name__, str(one)] for one in row]
version = connection.getinfo(pyodbc.SQL_DRIVER_VER)
print(json.dumps({"client": f"psqlodbc {version}, pyodbc", "relations": relations, "values": values}))
