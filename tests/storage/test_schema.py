"""Rendering the schema and telling where a database differs from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from openclaw_cli.storage import connection, schema

GOLDEN = ("13-s5-after-doctor-fix", "15-z1-zstd")


def real_objects(state_dir: Path) -> dict[tuple[str, str], str]:
    """type and name → SQL text of every object that has one, in a store that the real program wrote."""
    database = state_dir / "agents/main/agent/openclaw-agent.sqlite"
    with connection.open_read(database) as store:
        rows = store.execute("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
        return {(kind, name): sql for kind, name, sql in rows}


@pytest.mark.parametrize("name", GOLDEN)
def test_rendered_objects_are_those_of_a_real_store(state_copy: Callable[[str], Path], name: str) -> None:
    """Every object that the real program created is rendered with the same text, and no other one."""
    real = real_objects(state_copy(name))
    made_by_sqlite = {key for key in real if key[1].startswith("sqlite_") or ("_fts_" in key[1] and key[0] == "table")}
    made_by_sqlite.discard(("table", "session_transcript_fts_rows"))
    expected = {key: schema.normalise(sql) for key, sql in real.items() if key not in made_by_sqlite}
    assert expected == {(thing.kind, thing.name): schema.normalise(thing.sql) for thing in schema.objects()}


def test_layout_is_kept_where_the_real_program_compares_it(state_copy: Callable[[str], Path]) -> None:
    """Indexes (but the one with a nested call), virtual tables and the pending table have the very same text."""
    real = real_objects(state_copy("13-s5-after-doctor-fix"))
    nested = "idx_agent_conversations_identity"
    exact = [
        thing
        for thing in schema.objects()
        if (thing.kind == "index" and thing.name != nested)
        or thing.name in ("session_transcript_fts", "standing_intents_fts", "session_canonical_validation_pending")
    ]
    assert {thing.name: real[(thing.kind, thing.name)] for thing in exact} == {thing.name: thing.sql for thing in exact}


def test_a_missing_and_a_different_object_are_named() -> None:
    """Drift names kind and object; objects beyond the canonical ones are left alone."""
    rows = {(thing.kind, thing.name): thing.sql for thing in schema.objects()}
    del rows[("index", "idx_agent_session_nodes_label")]
    rows[("table", "conversations")] = rows[("table", "conversations")].replace("label TEXT", "label BLOB")
    rows[("table", "vectors_of_a_plugin")] = "CREATE TABLE vectors_of_a_plugin (x)"
    found = schema.missing((kind, name, sql) for (kind, name), sql in rows.items())
    expected = [
        schema.Drift("table", "conversations", "different"),
        schema.Drift("index", "idx_agent_session_nodes_label", "missing"),
    ]
    assert expected == found


def test_white_space_alone_is_no_drift() -> None:
    """A text that differs in line breaks and blanks only is the same definition."""
    rows = ((thing.kind, thing.name, thing.sql.replace("\n  ", " ")) for thing in schema.objects())
    assert [] == schema.missing(rows)
