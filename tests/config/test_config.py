"""Where values come from, and what is refused."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from openclaw_cli.config import Config, load
from openclaw_cli.errors import ConfigError


def loaded(state: Path, openclaw: str = "", own: str = "", env: Mapping[str, str] | None = None) -> Config:
    """The configuration of a state directory with these two files."""
    state.mkdir(exist_ok=True)
    if openclaw:
        (state / "openclaw.json").write_text(openclaw, encoding="utf-8")
    if own:
        (state / "openclaw-cli.yaml").write_text(own, encoding="utf-8")
    return load(state, None, {"HOME": str(state), **(env or {})})


def test_environment_wins_over_our_file_over_openclaw_s_over_the_default(tmp_path: Path) -> None:
    """Each place overrides the next, and the setting says which it was."""
    openclaw, own = "{session: {mainKey: 'a'}}", "session.mainKey: b\n"
    key, lock = "session.mainKey", "locks.stale"

    assert ("main", "default") == take(loaded(tmp_path / "1"), key)
    assert ("a", str(tmp_path / "2/openclaw.json")) == take(loaded(tmp_path / "2", openclaw), key)
    assert ("b", str(tmp_path / "3/openclaw-cli.yaml")) == take(loaded(tmp_path / "3", openclaw, own), key)
    assert (1_800_000, "default") == take(loaded(tmp_path / "4"), lock)
    variable = "OPENCLAW_SESSION_WRITE_LOCK_STALE_MS"
    assert (5, f"environment {variable}") == take(loaded(tmp_path / "5", env={variable: "5"}), lock)


def take(config: Config, key: str) -> tuple[object, str]:
    """Value and origin."""
    setting = config.get(key)
    return setting.value, setting.origin


def test_openclaw_json_is_json5(tmp_path: Path) -> None:
    """Comments, single quotes, trailing commas and a byte order mark are allowed."""
    config = loaded(tmp_path, "\ufeff// mine\n{session: {mainKey: 'Haupt',},}")

    assert "haupt" == config.main_key


@pytest.mark.parametrize("text", ["{", "[]", "{a: }", "\xff\xfe"])
def test_a_broken_openclaw_json_is_named_and_not_quoted(tmp_path: Path, text: str) -> None:
    """The error names the file; its content may be a secret."""
    (tmp_path / "openclaw.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path)

    assert str(tmp_path / "openclaw.json") in caught.value.message


def test_includes_merge_deeply(tmp_path: Path) -> None:
    """Objects merge, arrays concatenate, later files and sibling keys win; each value knows its file."""
    (tmp_path / "a.json").write_text('{"session": {"mainKey": "a", "scope": "global"}, "x": [1]}')
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/b.json").write_text('{"session": {"mainKey": "b"}, "x": [2], "$include": "./c.json"}')
    (tmp_path / "sub/c.json").write_text('{"x": [0], "session": {"mainKey": "c", "store": "s.json"}}')
    config = loaded(tmp_path, '{$include: ["./a.json", "./sub/b.json"], session: {scope: "per-sender"}}')

    assert ("b", str(tmp_path / "sub/b.json")) == take(config, "session.mainKey")
    assert ("per-sender", str(tmp_path / "openclaw.json")) == take(config, "session.scope")
    assert ("s.json", str(tmp_path / "sub/c.json")) == take(config, "session.store")
    assert [1, 0, 2] == config.get("x").value


@pytest.mark.parametrize("include", ['"../x.json"', '"/etc/hostname"', '"./link.json"', "42", "[]", '"./self.json"',
                                     '"./missing.json"', '"./huge.json"', f'"{"x" * 5000}"'])  # fmt: skip
def test_an_include_stays_inside_and_within_limits(tmp_path: Path, include: str) -> None:
    """Paths out of the configuration directory (also through links), loops, absent and oversized files are refused."""
    state = tmp_path / "state"
    state.mkdir()
    (tmp_path / "x.json").write_text("{}")
    (state / "link.json").symlink_to(tmp_path / "x.json")
    (state / "self.json").write_text('{"$include": "./self.json"}')
    (state / "huge.json").write_text('{"a": "' + "x" * 2**21 + '"}')
    with pytest.raises(ConfigError):
        loaded(state, f"{{session: {{$include: {include}}}}}")


def test_an_include_may_come_from_a_named_root(tmp_path: Path) -> None:
    """OPENCLAW_INCLUDE_ROOTS opens further directories."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more/x.json").write_text('{"mainKey": "x"}')
    roots = {"OPENCLAW_INCLUDE_ROOTS": os.pathsep.join([str(tmp_path / "none"), str(tmp_path / "more")])}
    config = loaded(tmp_path / "state", '{session: {$include: "../more/x.json"}}', env=roots)

    assert "x" == config.main_key


def test_an_include_goes_ten_files_deep(tmp_path: Path) -> None:
    """Ten included files below the configuration are read, an eleventh is refused."""
    for number in range(1, 11):
        (tmp_path / f"{number}.json").write_text(f'{{"$include": "./{number + 1}.json"}}')
    (tmp_path / "10.json").write_text('{"mainKey": "deep"}')
    assert "deep" == loaded(tmp_path, '{session: {$include: "./1.json"}}').main_key
    (tmp_path / "10.json").write_text('{"$include": "./11.json"}')
    (tmp_path / "11.json").write_text("{}")
    with pytest.raises(ConfigError):
        loaded(tmp_path)


def test_siblings_of_an_include_need_an_object(tmp_path: Path) -> None:
    """A list with keys beside it cannot be merged."""
    (tmp_path / "list.json").write_text("[1]")
    assert [1] == loaded(tmp_path, '{x: {$include: "./list.json"}}').get("x").value
    with pytest.raises(ConfigError):
        loaded(tmp_path, '{x: {$include: "./list.json", y: 1}}')


def test_variables(tmp_path: Path) -> None:
    """`${NAME}` is replaced, `$${NAME}` is the text itself, lower-case names are no variables."""
    config = loaded(tmp_path, '{a: "${HERE}/$${HERE}/${here}/$HERE"}', env={"HERE": "there"})

    assert "there/${HERE}/${here}/$HERE" == config.get("a").value


def test_a_missing_variable_stops_only_who_needs_it(tmp_path: Path) -> None:
    """A secret that cron does not have hurts nobody; the setting itself cannot be read without it."""
    config = loaded(tmp_path, '{channels: {token: "${TOKEN}"}, session: {mainKey: "x"}}', env={"TOKEN": ""})

    assert "x" == config.main_key
    with pytest.raises(ConfigError, match="TOKEN"):
        config.get("channels.token")


@pytest.mark.parametrize("text", [
    "unknown: 1", "session: {mainkey: x}", "session: 5", "cleanup: [1]", "- 1", "a: [", "session.mainKey: 5",
    "compact.labels: fr", "import.maxLine: big", "session.mainKey: a\nsession: {mainKey: b}",
    "session: {mainKey: a, mainKey: b}", "locks.stale: 5", "session.mainKey: !!python/name:os.system",
])  # fmt: skip
def test_our_file_is_read_strictly(tmp_path: Path, text: str) -> None:
    """Unknown keys, wrong kinds, doubled keys, tags and bad YAML are refused with the name of the file."""
    with pytest.raises(ConfigError, match=r"openclaw-cli\.yaml"):
        loaded(tmp_path, own=text)


def test_a_misspelt_key_gets_a_hint(tmp_path: Path) -> None:
    """The nearest setting is named."""
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, own="session: {mainkey: x}")

    assert "did you mean session.mainKey?" == caught.value.hint


def test_yaml_keeps_what_people_write(tmp_path: Path) -> None:
    """`no`, `010` and a date stay texts; nested and dotted names are the same; sizes have units."""
    for text, wanted in (("no", "no"), ("010", "010"), ("2026-01-01", "2026-01-01"), ("1:30", "1:30")):
        config = loaded(tmp_path, own=f"session:\n  mainKey: {text}\nimport.maxLine: 2mb\n")
        assert wanted == config.main_key
        assert 2 * 2**20 == config.get("import.maxLine").value
    assert None is loaded(tmp_path, own="# nothing\n").get("session.store").value


def test_where_our_file_is_looked_for(tmp_path: Path) -> None:
    """--config, $OPENCLAW_CLI_CONFIG, the state directory, $XDG_CONFIG_HOME: the first that exists, and only it."""
    places = [
        tmp_path / name
        for name in ("flag.yaml", "variable.yaml", "state/openclaw-cli.yaml", "xdg/openclaw-cli/config.yaml")
    ]
    for path in places:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"session.mainKey: {path.stem}\n")
    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "xdg")}
    state = tmp_path / "state"

    assert "flag" == load(state, str(places[0]), env | {"OPENCLAW_CLI_CONFIG": str(places[1])}).main_key
    assert "variable" == load(state, None, env | {"OPENCLAW_CLI_CONFIG": str(places[1])}).main_key
    assert "openclaw-cli" == load(state, None, env).main_key
    places[2].unlink()
    assert "config" == load(state, None, env).main_key
    with pytest.raises(ConfigError):
        load(state, str(tmp_path / "missing.yaml"), env)


@pytest.mark.parametrize(("text", "agents", "default"), [
    ("{}", ("main",), "main"),
    ("{agents: {entries: {Work: {}, b: {default: true}}, list: [{id: 'c'}]}}", ("work", "b"), "b"),
    ("{agents: {list: [{id: 'A b'}, {name: 'x'}]}}", ("a-b",), "a-b"),
    ("{agents: {entries: {a: {}, b: {}}}}", ("a", "b"), None),
    ("{agents: {ownership: 'explicit', entries: {a: {default: true}, b: {}}}}", ("a", "b"), None),
    ("{agents: {entries: {a: {default: true}, b: {default: true}}}}", ("a", "b"), None),
])  # fmt: skip
def test_roster(tmp_path: Path, text: str, agents: tuple[str, ...], default: str | None) -> None:
    """`entries` wins over `list`; one marked entry or the only agent is the default."""
    config = loaded(tmp_path, text)

    assert (agents, default) == (config.agents, config.default_agent)
