# Says what is wrong with OpenLineage events (a JSON list on standard input) by the types of the official client, which are made from the official schema.
import enum
import importlib
import json
import pkgutil
import sys
import types
import typing

import attr
from openlineage.client import generated

classes = {
    found._get_schema(): found
    for module in pkgutil.iter_modules(generated.__path__)
    for found in vars(importlib.import_module(f"{generated.__name__}.{module.name}")).values()
    if isinstance(found, type) and attr.has(found) and hasattr(found, "_get_schema")
}
# The client fills these in by itself, the schema requires them.
always = {"producer", "schemaURL", "_producer", "_schemaURL"}


def wrong(value, kind, at):
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is types.UnionType:
        # What is optional may be absent, not null.
        return min((wrong(value, one, at) for one in arguments if one is not type(None)), key=len)
    if typing.get_origin(kind) is list and isinstance(value, list):
        return [said for place, one in enumerate(value) for said in wrong(one, arguments[0], f"{at}[{place}]")]
    if typing.get_origin(kind) is dict and isinstance(value, dict):
        return [said for name, one in value.items() for said in facet(name, one, arguments[1], f"{at}.{name}")]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return [] if value in [one.value for one in kind] else [f"{at}: {value!r}"]
    if attr.has(kind) and isinstance(value, dict):
        return members(value, kind, at)
    return [] if type(value) is kind else [f"{at}: {value!r} is no {kind}"]


def facet(name, value, kind, at):
    found = classes.get(value.get("_schemaURL"))
    if found is None or not issubclass(found, kind) or not found.__name__.lower().startswith(name.lower()):
        return [f"{at}: {value.get('_schemaURL')} is no schema of it"]
    return members(value, found, at)


def members(value, kind, at):
    said = [f"{at}: {name} is unknown" for name in value if name not in attr.fields_dict(kind)]
    hints = typing.get_type_hints(kind)
    for one in attr.fields(kind):
        if one.name not in value:
            said += [f"{at}: {one.name} is missing"] if one.default is attr.NOTHING or one.name in always else []
            continue
        said += wrong(value[one.name], hints[one.name], f"{at}.{one.name}")
        try:
            if one.validator:
                one.validator(None, one, value[one.name])
        except Exception as error:
            said.append(f"{at}.{one.name}: {error}")
    return said


events = json.load(sys.stdin)
print(json.dumps([said for event in events for said in members(event, classes[event["schemaURL"]], event.get("eventType"))]))
