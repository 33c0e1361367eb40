"""Session keys: one spelling each, the one that the real program reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_cli.migration.keys import canonical_key, normal_agent_id, owner_agent, proven_key


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("main", "agent:main:main"),
        ("MAIN", "agent:main:main"),
        ("Agent:Main:Main", "agent:main:main"),
        (" global ", "global"),
        ("Unknown", "unknown"),
        ("discord:channel:555", "agent:main:discord:channel:555"),
        ("Discord:Channel:AbC", "agent:main:discord:channel:abc"),
        ("agent:main:Discord:Channel:XyZ", "agent:main:discord:channel:xyz"),
        ("group:123@g.us", "agent:main:unknown:group:123@g.us"),
        ("Channel:abc", "agent:main:unknown:channel:abc"),
        ("whatsapp:group:123@g.us", "agent:main:whatsapp:group:123@g.us"),
        ("Subagent:ABC", "agent:main:subagent:abc"),
        ("cron:Job1:run:R", "agent:main:cron:job1:run:r"),
        ("+491234", "agent:main:+491234"),
        (" padded:key\ufeff", "agent:main:padded:key"),
        ("a\u2028b", "agent:main:a\u2028b"),
        ("agent:main:İx", "agent:main:i̇x"),
        ("agent:main:global", "agent:main:global"),
        ("agent:main:agent:main:y", "agent:main:agent:main:y"),
        ("agent:main:work:main", "agent:main:work:main"),
        ("agent:ops:Tui-1", "agent:ops:tui-1"),
        ("", ""),
        (" \u00a0", ""),
    ],
)
def test_legacy_spellings(key: str, expected: str) -> None:
    """Each key gets the name that the real program's repair gives it."""
    assert expected == canonical_key(key, agent_id="main")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("agent::x", "agent:main:agent::x"),
        ("agent:main", "agent:main:agent:main"),
        ("agent:main:", "agent:main:agent:main:"),
        ("agent:main::x", "agent:main:agent:main::x"),
        ("agent:main::", "agent:main:agent:main::"),
        (":a", "agent:main:a"),
        ("::a:", "agent:main:a:"),
        ("agent:Bad Name:x", "agent:main:agent:bad name:x"),
    ],
)
def test_malformed_agent_parts_stay_in_the_own_store(key: str, expected: str) -> None:
    """A key whose agent cannot be told is no loss: it becomes an ordinary key of the agent it was found with."""
    assert expected == canonical_key(key, agent_id="main")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("Signal:Group:AbC==", "agent:main:signal:group:AbC=="),
        ("agent:main:signal:group: AbC== :Thread:T1", "agent:main:signal:group:AbC==:thread:t1"),
        ("MATRIX:Channel:!Ro:S.org", "agent:main:matrix:channel:!Ro:S.org"),
        ("agent:main:Matrix:Group:!Ro:S.org:Thread:$Ev", "agent:main:matrix:group:!Ro:S.org:thread:$Ev"),
        ("agent:main:x:matrix:channel:!Ro", "agent:main:x:matrix:channel:!ro"),
        ("agent:main:ſignal:group:AbC", "agent:main:ſignal:group:abc"),
    ],
)
def test_opaque_ids_keep_their_case(key: str, expected: str) -> None:
    """Ids of Signal groups and all that follows a Matrix room are compared with case, everything else without."""
    assert expected == canonical_key(key, agent_id="main")


def test_main_session_has_the_configured_name() -> None:
    """Both names of the main session become `session.mainKey`; with one session for all it is `global`."""
    keys = ("main", "agent:main:main", "Work", "agent:main:work")
    assert {"agent:main:work"} == {canonical_key(key, agent_id="main", main_key=" Work ") for key in keys}
    assert "agent:ops:work" == canonical_key("agent:ops:main", agent_id="main", main_key="work")
    assert "global" == canonical_key("agent:main:main", agent_id="main", scope="global")
    assert "agent:main:x" == canonical_key("x", agent_id="main", scope="global")


def test_keys_from_before_the_agent_had_a_name() -> None:
    """Without an agent `main` in the roster its keys belong to the agent of the store."""
    assert "agent:ops:main" == canonical_key("agent:main:main", agent_id="ops", agents=("ops",))
    assert "agent:ops:x" == canonical_key("agent:main:x", agent_id="ops", agents=("ops",))
    assert "agent:main:x" == canonical_key("agent:main:x", agent_id="ops", agents=("ops", "main"))
    assert "agent:main:x" == canonical_key("agent:main:x", agent_id="ops")


def test_owner() -> None:
    """The agent that a key names owns it; sentinels and keys without an agent have no owner."""
    assert ["ops", "main", None, None, None] == [
        owner_agent(key) for key in ("agent:OPS:x", "agent:main:main", "global", "discord:channel:5", "agent:a b:x")
    ]


def test_agent_ids() -> None:
    """Agent ids are those of directories."""
    names = {"Ops": "ops", " my agent! ": "my-agent", "ÄÖ": "main", "": "main", "a" * 70: "a" * 64, "-x-": "x"}
    assert list(names.values()) == [normal_agent_id(name) for name in names]


def external(**context: object) -> dict[str, object]:
    """An entry that delivers to the given address."""
    return {"delivery": {"kind": "external", "context": context, "route": {}, "origin": {}}}


def test_a_delivery_target_proves_the_case_of_a_room() -> None:
    """A key that was written in lower case by mistake gets the case of the room that the entry delivers to."""
    entry = external(channel="Matrix", to="room:!Ro:S.org", threadId="$Ev")
    assert "agent:main:matrix:channel:!Ro:S.org" == proven_key("agent:main:matrix:channel:!ro:s.org", entry)
    folded = "agent:main:matrix:channel:!ro:s.org:thread:$ev"
    assert "agent:main:matrix:channel:!Ro:S.org:thread:$Ev" == proven_key(folded, entry)


@pytest.mark.parametrize(
    ("key", "entry"),
    [
        ("agent:main:matrix:channel:!ro:s.org", external(channel="matrix", to="!Other:S.org")),
        ("agent:main:matrix:channel:!ro:s.org", external(channel="discord", to="!Ro:S.org")),
        ("agent:main:matrix:channel:!ro:s.org", external(channel=5, to="!Ro:S.org")),
        ("agent:main:matrix:channel:!ro:s.org", {}),
        ("agent:main:matrix:direct:!ro:s.org", external(channel="matrix", to="!Ro:S.org")),
        ("agent:main:discord:channel:abc", external(channel="discord", to="channel:ABC")),
        ("agent:main:matrix:channel:!Ro:S.org", external(channel="matrix", to="!Ro:S.org")),
    ],
)
def test_nothing_else_changes_the_case(key: str, entry: dict[str, object]) -> None:
    """Another room, another channel, a kind without case or no target at all leave a key alone."""
    assert key == proven_key(key, entry)


@given(st.text(max_size=40), st.sampled_from(["main", "work", " Ops "]))
def test_settling_twice_changes_nothing(key: str, main_key: str) -> None:
    """A canonical key is its own canonical key."""
    once = canonical_key(key, agent_id="main", main_key=main_key)
    assert once == canonical_key(once, agent_id="main", main_key=main_key)


@pytest.mark.parametrize("key", [":", "::", " : ", ":::"])
def test_keys_of_colons_only_are_none(key: str) -> None:
    """Nothing can be made of such a key that the real program would read: the row is kept out."""
    assert "" == canonical_key(key, agent_id="main")


@pytest.mark.parametrize(
    "key", [":", "::", ":a", "a:", "agent:main::", "agent:main::x", "agent::", "agent:", "a::b", "group::"]
)
def test_keys_with_empty_parts_are_settled_at_once(key: str) -> None:
    """A canonical key stays what it is, however odd it looks."""
    settled = canonical_key(key, agent_id="main")
    assert settled == canonical_key(settled, agent_id="main")
