"""The agent database schema: rendered from `data/agent-schema-23.json`, and compared with what a database has.

The real program refuses a store whose canonical objects differ, so the text is rendered in the layout that it expects:
one term per line inside the outer brackets where the description asks for it (store format §10, "Schema rendering").
White space elsewhere is free. This module knows SQL texts only; it opens nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import orjson

VERSION = 23
"""Schema version that is created and written; `user_version` and `schema_meta.schema_version` both say it."""

APP_VERSION = "2026.9.6"
"""Release of OpenClaw whose format this is (`schema_meta.app_version`)."""


@dataclass(frozen=True, slots=True)
class SchemaObject:
    """One CREATE statement: `kind` is table, index or trigger as in `sqlite_schema.type`."""

    kind: str
    name: str
    sql: str


@dataclass(frozen=True, slots=True)
class Drift:
    """A canonical object that a database lacks (`missing`) or has with another definition (`different`)."""

    kind: str
    name: str
    problem: str


@cache
def description() -> Mapping[str, Any]:
    """The shipped description of the schema, parsed once."""
    return orjson.loads(resources.files("openclaw_cli").joinpath("data", "agent-schema-23.json").read_bytes())


@cache
def objects() -> tuple[SchemaObject, ...]:
    """Every canonical object in an order in which they can be created."""
    known = description()
    return (
        *(SchemaObject("table", table["name"], _table(table)) for table in known["tables"]),
        *(SchemaObject("table", table["name"], _virtual_table(table)) for table in known["virtual_tables"]),
        *(SchemaObject("index", index["name"], _index(index)) for index in known["indexes"]),
        *(SchemaObject("trigger", trigger["name"], _trigger(trigger)) for trigger in known["triggers"]),
    )


def statements() -> tuple[str, ...]:
    """The CREATE statements of a new store, in order."""
    return tuple(thing.sql for thing in objects())


def normalise(sql: str) -> str:
    """`sql` with runs of white space as one blank and none just inside brackets: the form in which texts compare."""
    collapsed = re.sub(r"\s+", " ", sql).strip()
    return re.sub(r"\( | \)", lambda match: match.group().strip(), collapsed)


def missing(rows: Iterable[tuple[str, str, str | None]]) -> list[Drift]:
    """Canonical objects that `rows` (type, name, sql of `sqlite_schema`) lack or define otherwise.

    Objects that are not canonical (a plugin's vector index, say) are left alone.
    """
    present = {(kind, name): sql for kind, name, sql in rows}
    found = []
    for thing in objects():
        sql = present.get((thing.kind, thing.name))
        if sql is None:
            found.append(Drift(thing.kind, thing.name, "missing"))
        elif normalise(sql) != normalise(thing.sql):
            found.append(Drift(thing.kind, thing.name, "different"))
    return found


def _bracketed(terms: Iterable[str], one_per_line: bool) -> str:
    """`(a, b)` or the same with every term on its own line."""
    return "(\n  " + ",\n  ".join(terms) + "\n)" if one_per_line else "(" + ", ".join(terms) + ")"


def _column(column: Mapping[str, Any]) -> str:
    constraints = (
        constraint if isinstance(constraint, str) else f"CHECK ({constraint['check']})"
        for constraint in column["constraints"]
    )
    return " ".join([column["name"], column["type"], *constraints])


def _table(table: Mapping[str, Any]) -> str:
    terms = [*map(_column, table["columns"]), *table["constraints"]]
    return f"CREATE TABLE {table['name']} {_bracketed(terms, table['one_term_per_line'])} {table['options']}".rstrip()


def _virtual_table(table: Mapping[str, Any]) -> str:
    arguments = _bracketed(table["arguments"], table["one_term_per_line"])
    return f"CREATE VIRTUAL TABLE {table['name']} USING {table['module']}{arguments}"


def _index(index: Mapping[str, Any]) -> str:
    unique = "UNIQUE " if index["unique"] else ""
    terms = _bracketed(index["terms"], index["one_term_per_line"])
    where = f"\n  WHERE {index['where']}" if index["where"] else ""
    return f"CREATE {unique}INDEX {index['name']}\n  ON {index['table']}{terms}{where}"


def _trigger(trigger: Mapping[str, Any]) -> str:
    columns = " OF " + ", ".join(trigger["of"]) if trigger["of"] else ""
    when = f"\nWHEN {trigger['when']}" if trigger["when"] else ""
    body = "".join(f"  {statement};\n" for statement in trigger["statements"])
    return (
        f"CREATE TRIGGER {trigger['name']}\n{trigger['timing']} {trigger['event']}{columns} ON {trigger['table']}"
        f"{when}\nBEGIN\n{body}END"
    )
