"""The fields of a JSON Schema as a table for docs/."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SCHEMAS: Final = Path(__file__).resolve().parent.parent / "ptxtemplates" / "schemas"


def table(file: str) -> str:
    """Return the table of all fields that a schema in ptxtemplates/schemas describes, in its order."""
    schema = json.loads((SCHEMAS / file).read_text(encoding="utf-8"))
    rows = [f"| `{path}` | {text} |" for path, text in _fields(schema, schema, "")]
    return "\n".join(["| field | |", "|---|---|", *rows, ""])


def _fields(node: Mapping[str, Any], schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    described = {**_target(node, schema), **node}
    if path and "description" in described:
        yield path, described["description"] + _choice(described)
    if "items" in described:
        yield from _fields({**described["items"]}, schema, f"{path}[]")
    for option in described.get("anyOf", ()):
        inner = _target(option, schema)
        # the description is that of the field
        yield from _fields({key: inner[key] for key in inner if key != "description"}, schema, path)
    for name, field in described.get("properties", {}).items():
        yield from _fields(field, schema, f"{path}.{name}" if path else name)


def _target(node: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a node refers to, or the node."""
    if "$ref" not in node:
        return node
    found: Mapping[str, Any] = schema["$defs"][node["$ref"].removeprefix("#/$defs/")]
    return found


def _choice(node: Mapping[str, Any]) -> str:
    return f" One of {', '.join(f'`{word}`' for word in node['enum'])}." if "enum" in node else ""
