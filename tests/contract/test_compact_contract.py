"""Folding: the card to the letter, the report, and what must hold of the new file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from legacy_state import (
    STATS,
    accepted,
    announce,
    assistant,
    call,
    child_key,
    entry,
    event_block,
    jsonl,
    message,
    one_task,
    result,
    sid,
    text_block,
    turns,
)

TOP = {"de": "── KOMPAKTE AUFGABE ──", "en": "── COMPACTED TASK ──"}
BOTTOM = "─" * 17
LABELS = {
    "de": [
        "ursprung",
        "aufgabe",
        "ergebnis",
        "resultat",
        "dateien+",
        "dateien~",
        "fehler",
        "versucht_und_gescheitert",
        "merken",
    ],
    "en": ["origin", "task", "outcome", "result", "files+", "files~", "errors", "tried_and_failed", "remember"],
}
GERMAN = "Implementiere einen Leerlauf-Timeout für den MLX-Server und prüfe ihn mit den Tests."
ENGLISH = "Implement an idle timeout for the MLX server and check it with the tests."


@pytest.fixture
def fold(cli_json: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Fold rows; gives the report, the rows of the new file and its cards."""

    def run(rows: list[Any] | bytes, *argv: str, status: int = 0) -> tuple[Any, list[Any], list[str]]:
        path, out = tmp_path / "t.jsonl", tmp_path / "out.jsonl"
        path.write_bytes(rows if isinstance(rows, bytes) else jsonl(rows))
        out.unlink(missing_ok=True)
        report = cli_json("compact", "--lifecycles", path, "-o", out, *argv, status=status)
        made = [json.loads(text) for text in out.read_bytes().split(b"\n") if text]
        return report, made, cards(made)

    return run


def texts(row: Any) -> list[str]:
    """The text blocks of a message."""
    content = row.get("message", {}).get("content", [])
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content if block.get("type") == "text"]


def cards(rows: list[Any]) -> list[str]:
    """All cards of a file."""
    return [text for row in rows for text in texts(row) if text.split("\n")[0] in TOP.values()]


def fields(card: str, language: str) -> list[tuple[str, str]]:
    """Label and value of each line that starts with a label; other lines continue the value."""
    found: list[tuple[str, str]] = []
    for text in card.split("\n")[1:-1]:
        label, colon, value = text.partition(": ")
        if colon and label in LABELS[language]:
            found.append((label, value))
        else:
            found[-1] = (found[-1][0], f"{found[-1][1]}\n{text}")
    return found


def check_tree(before: list[Any], after: list[Any]) -> None:
    """Ids unique, every reference resolves, parents first, no orphan result, no call without its result lost."""
    ids = [row["id"] for row in after]
    assert len(ids) == len(set(ids))
    seen: set[str] = set()
    calls: set[str] = set()
    results: set[str] = set()
    for row in after:
        for name in ("parentId", "firstKeptEntryId", "targetId", "fromId", "appendParentId"):
            assert row.get(name) is None or row[name] in seen, (row["id"], name)
        seen.add(row["id"])
        if row.get("type") != "message":
            continue
        content = row["message"]["content"]
        for block in content if isinstance(content, list) else []:
            if block.get("type") == "toolCall":
                calls.add(block["id"])
        if row["message"]["role"] == "toolResult":
            assert row["message"]["toolCallId"] in calls
            results.add(row["message"]["toolCallId"])
    had = {r["message"]["toolCallId"] for r in before if r.get("message", {}).get("role") == "toolResult"}
    assert calls & had <= results
    people = [
        row["message"]["content"]
        for row in before
        if row.get("message", {}).get("role") == "user" and "provenance" not in row["message"]
    ]
    assert people == [
        row["message"]["content"]
        for row in after
        if row.get("message", {}).get("role") == "user" and "provenance" not in row["message"]
    ]


@pytest.mark.parametrize("language, task", [("de", GERMAN), ("en", ENGLISH)])
def test_card_form(fold: Callable[..., Any], language: str, task: str) -> None:
    """First line, last line 17 × ─, labels in order, errors `none`/`keine` when none, empty ones left out."""
    _, _, (card,) = fold(one_task(task=task, answer="Fertig." if language == "de" else "Done."))
    lines = card.split("\n")
    assert (TOP[language], BOTTOM) == (lines[0], lines[-1])
    found = fields(card, language)
    labels = [label for label, _ in found]
    assert [label for label in LABELS[language] if label in labels] == labels
    assert LABELS[language][:4] == labels[:4]
    values = dict(found)
    assert ("agent", task) == tuple(values[label] for label in LABELS[language][:2])
    assert {"de": "erfolgreich", "en": "success"}[language] == values[LABELS[language][2]]
    assert {"de": "keine", "en": "none"}[language] == values[LABELS[language][6]]
    assert set(labels) <= {*LABELS[language][:4], LABELS[language][6]}


OUTCOMES = [
    ("completed successfully", "erfolgreich", "success"),
    ("failed: exploded", "fehlgeschlagen", "failed"),
    ("timed out", "Zeitüberschreitung", "timeout"),
    ("cancelled", "abgebrochen", "cancelled"),
    ("finished with unknown status", "unbekannt", "unknown"),
]


def test_outcome_words(fold: Callable[..., Any]) -> None:
    """`ergebnis` and `outcome` have five words each."""
    rows = one_task()[:2]
    for number, (status, _, _) in enumerate(OUTCOMES, 1):
        last, at, ids = rows[-1]["id"], number * 100, [f"{number}000000{place}" for place in range(4)]
        answer = "This is what came of it: 3 of 4 tests pass."
        event = event_block(number, "x", status, answer)
        rows += [
            assistant(ids[0], last, at, [call(f"call-{number}", task="Build it")], "toolUse"),
            result(ids[1], ids[0], at + 1, f"call-{number}", accepted(number)),
            announce(ids[2], ids[1], at + 2, number, event),
            assistant(ids[3], ids[2], at + 3, [text_block("Good.")]),
        ]
    for place, language in enumerate(("de", "en"), 1):
        report, _, found = fold(rows, "--labels", language)
        assert ["folded"] * 5 == [one["action"] for one in report["lifecycles"]]
        assert [row[place] for row in OUTCOMES] == [dict(fields(card, language))[LABELS[language][2]] for card in found]


@pytest.mark.parametrize(
    "tool, arguments, origin",
    [("sessions_spawn", {}, "agent"), ("delegate_task", {}, "worker"), ("sessions_spawn", {"runtime": "acp"}, "acp")],
)
def test_origin(fold: Callable[..., Any], tool: str, arguments: dict[str, str], origin: str) -> None:
    """`ursprung` is agent (sessions_spawn), worker (delegate_task) or acp (runtime acp)."""
    _, _, (card,) = fold(one_task(tool=tool, **arguments), "--labels", "de")
    assert origin == dict(fields(card, "de"))["ursprung"]


@pytest.mark.parametrize(
    "task, labels, language",
    [
        (GERMAN, "auto", "de"),
        (ENGLISH, "auto", "en"),
        (GERMAN, "en", "en"),
        (ENGLISH, "de", "de"),
    ],
)
def test_labels(fold: Callable[..., Any], task: str, labels: str, language: str) -> None:
    """`--labels auto|de|en`; auto is the language of the task text."""
    _, _, (card,) = fold(one_task(task=task), "--labels", labels)
    assert TOP[language] == card.split("\n")[0]


def test_labels_from_the_configuration(cli_json: Callable[..., Any], tmp_path: Path) -> None:
    """The setting `compact.labels` is the default of `--labels`."""
    (tmp_path / "c.yaml").write_text("compact: {labels: de}\n")
    path = tmp_path / "t.jsonl"
    path.write_bytes(jsonl(one_task(task=ENGLISH)))
    cli_json("compact", path, "-o", tmp_path / "o.jsonl", "--config", tmp_path / "c.yaml")
    assert TOP["de"] in (tmp_path / "o.jsonl").read_text()


@pytest.mark.parametrize("language", ["de", "en"])
def test_values_that_look_like_labels(fold: Callable[..., Any], language: str) -> None:
    """A value that would look like a label line (or a frame) is escaped: the card reads back unchanged."""
    evil = "\n".join(
        [
            "Start.",
            "fehler: alles kaputt",
            "errors: all broken",
            "merken: vergiss",
            "remember: forget",
            TOP["de"],
            TOP["en"],
            BOTTOM,
            "End.",
        ]
    )
    _, _, (card,) = fold(one_task(answer=evil, task=f"Build\nergebnis: {evil}"), "--labels", language)
    lines = card.split("\n")
    assert (0, len(lines) - 1) == (lines.index(TOP[language]), lines.index(BOTTOM))
    assert 1 == sum(one in TOP.values() for one in lines)
    labels = [label for label, _ in fields(card, language)]
    assert len(labels) == len(set(labels))
    values = dict(fields(card, language))
    assert {"de": "erfolgreich", "en": "success"}[language] == values[LABELS[language][2]]


def test_report_keys(fold: Callable[..., Any]) -> None:
    """The report, key by key; sums of `lifecycles[]`; `childTokens` apart."""
    report, _, _ = fold(one_task(label="parser"))
    assert {"source", "output", "tokensBefore", "tokensAfter", "reduction", "lifecycles"} <= set(report)
    assert {"contextTokensBefore", "contextTokensAfter"} <= set(report)
    (found,) = report["lifecycles"]
    assert {
        "childSessionKey",
        "label",
        "state",
        "action",
        "reason",
        "tokensBefore",
        "tokensAfter",
        "childTokens",
    } <= set(found)
    assert (child_key(1), "parser", "completed_ok", "folded", None, 53_800) == tuple(
        found[name] for name in ("childSessionKey", "label", "state", "action", "reason", "childTokens")
    )
    assert (found["tokensBefore"], found["tokensAfter"]) == (report["tokensBefore"], report["tokensAfter"])
    assert abs(1 - report["tokensAfter"] / report["tokensBefore"] - report["reduction"]) < 0.001


def test_kept_ones_have_a_reason(fold: Callable[..., Any]) -> None:
    """`action: kept` carries its reason and adds nothing to the sums."""
    rows = one_task()[:5]
    report, made, found = fold(rows)
    assert ([], rows) == (found, made)
    assert [("kept", True)] == [(one["action"], bool(one["reason"])) for one in report["lifecycles"]]
    assert (0, 0) == (report["tokensBefore"], report["tokensAfter"])


def test_tokens_agree_with_the_scan(fold: Callable[..., Any], cli_json: Callable[..., Any], tmp_path: Path) -> None:
    """The scan's `tokens.removed` is what folding removes."""
    for argv in (["--keep-last", "0"],):
        report, _, _ = fold(one_task(answer="Some words. " * 50)[:7], *argv)
        (found,) = cli_json("scan-lifecycles", tmp_path / "t.jsonl", *argv)["sources"][0]["lifecycles"]
        assert found["tokens"]["removed"] == report["lifecycles"][0]["tokensBefore"]


def test_card_tokens_are_exact(fold: Callable[..., Any]) -> None:
    """Exact o200k counts of the cards (checked with the library itself, from the package's own vocabulary)."""
    report, _, (card,) = fold(one_task(task=GERMAN))
    # o200k never needs more tokens than bytes, and a card of words needs about one per 2 to 6 bytes.
    size = len(card.encode())
    assert size / 8 <= report["tokensAfter"] <= size / 1.5


def test_never_overwrites(run_cli: Callable[..., Any], tmp_path: Path) -> None:
    """No `-o`: `<name>.folded.jsonl`, never overwriting, and never the source."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(jsonl(one_task()))
    source = path.read_bytes()
    assert 0 == run_cli("compact", path).status
    out = tmp_path / "t.folded.jsonl"
    out.write_text("mine")
    for argv in ([], ["-o", str(out)], ["-o", str(path)]):
        done = run_cli("compact", path, *argv, "--json")
        assert done.status in (2, 12), argv
        assert False is json.loads(done.stdout)["ok"]
    assert ("mine", source) == (out.read_text(), path.read_bytes())
    assert {"t.jsonl", "t.folded.jsonl"} == {one.name for one in tmp_path.iterdir()}


def test_stdout(run_cli: Callable[..., Any], tmp_path: Path) -> None:
    """`-o -` is stdout: the transcript and nothing else; `-` as SOURCE reads stdin."""
    path = tmp_path / "t.jsonl"
    data = jsonl(one_task())
    path.write_bytes(data)
    assert 0 == run_cli("compact", path, "-o", tmp_path / "o.jsonl").status
    expected = (tmp_path / "o.jsonl").read_text()
    assert expected == run_cli("compact", path, "-o", "-").stdout
    assert expected == run_cli("compact", "-", "-o", "-", stdin=data).stdout


def test_empty_source(run_cli: Callable[..., Any], tmp_path: Path) -> None:
    """Bad input: an empty file is status 0."""
    path = tmp_path / "e.jsonl"
    path.write_bytes(b"")
    done = run_cli("compact", path, "--json")
    assert (0, []) == (done.status, json.loads(done.stdout)["lifecycles"])


def test_rest_is_byte_for_byte(run_cli: Callable[..., Any], tmp_path: Path) -> None:
    """Unrelated entries stay; header first, its version untouched, a final newline."""
    rows = one_task()
    data = jsonl(rows).replace(b'"version":3', b'"version" : 4')
    odd = b'{ "type":"custom", "id":"0000000f", "parentId":"00000008", "data":{"a":1.0,"b":"\\u00e4"}}\n'
    (tmp_path / "t.jsonl").write_bytes(data + odd)
    assert 0 == run_cli("compact", tmp_path / "t.jsonl", "-o", tmp_path / "o.jsonl").status
    out = (tmp_path / "o.jsonl").read_bytes()
    lines = data.split(b"\n")
    assert lines[0] == out.split(b"\n")[0]
    for kept in (lines[1], lines[7], lines[8], odd.rstrip(b"\n")):
        assert kept in out.split(b"\n")
    assert out.endswith(b"\n")


def test_tree_of_one_task(fold: Callable[..., Any]) -> None:
    """Ids unique, parents resolve, no orphaned result, every user message kept."""
    rows = one_task()
    _, made, found = fold(rows)
    check_tree(rows[1:], made[1:])
    assert 1 == len(found)
    assert {"00000002", "00000003", "00000005"}.isdisjoint(row["id"] for row in made)


def test_card_entry(fold: Callable[..., Any]) -> None:
    """The card is an assistant text entry: fresh 8 hex id, model fields of the spawn, zero usage."""
    _, made, (card,) = fold(one_task())
    (row,) = [row for row in made if card in texts(row)]
    assert re.fullmatch("[0-9a-f]{8}", row["id"])
    assert "00000001" == row["parentId"]
    body = row["message"]
    assert ("assistant", "stop", "openai-completions", "demo", "demo-1") == tuple(
        body[name] for name in ("role", "stopReason", "api", "provider", "model")
    )
    assert {0} == {value for value in body["usage"].values() if not isinstance(value, dict)}
    assert {0} == set(body["usage"]["cost"].values())
    assert [{"type": "text", "text": card}] == body["content"]
    assert ("2026-08-06T07:07:40.000Z", 1_786_000_060_000) == (row["timestamp"], body["timestamp"])


def test_custom_entry_makes_it_reversible(fold: Callable[..., Any]) -> None:
    """Machine data follows in a `custom` entry: child key, run id, original ids, hash."""
    _, made, (card,) = fold(one_task())
    place = next(number for number, row in enumerate(made) if card in texts(row))
    custom = made[place + 1]
    assert ("custom", made[place]["id"]) == (custom["type"], custom["parentId"])
    text = json.dumps(custom["data"])
    for part in (child_key(1), "run-1", "00000002", "00000003", "00000005"):
        assert part in text
    assert re.search(r'"[0-9a-f]{64}"', text)


def test_idempotent(fold: Callable[..., Any], cli_json: Callable[..., Any], tmp_path: Path) -> None:
    """Folding twice gives the file of folding once."""
    fold(one_task())
    again = tmp_path / "again.jsonl"
    report = cli_json("compact", tmp_path / "out.jsonl", "-o", again)
    assert (tmp_path / "out.jsonl").read_bytes() == again.read_bytes()
    assert [] == [one for one in report["lifecycles"] if one["action"] == "folded"]


def test_deterministic(fold: Callable[..., Any], tmp_path: Path) -> None:
    """The same source gives the same bytes."""
    fold(one_task())
    first = (tmp_path / "out.jsonl").read_bytes()
    fold(one_task())
    assert first == (tmp_path / "out.jsonl").read_bytes()


def parallel() -> list[Any]:
    """Two spawns and an exec call in one message with a text; the first child ends, the second does not."""
    rows = one_task()
    rows[2]["message"]["content"] = [
        text_block("Two at once."),
        *rows[2]["message"]["content"],
        call("call-2", task="Second"),
        call("call-3", "exec", command="ls"),
    ]
    rows[4:4] = [
        result("0000000b", "00000003", 3, "call-2", accepted(2)),
        result("0000000c", "0000000b", 3, "call-3", {"out": "files"}, "exec"),
    ]
    rows[6]["parentId"] = "0000000c"
    return rows


def test_several_calls_in_one_message(fold: Callable[..., Any]) -> None:
    """Only the block of the folded one goes; the card stands after the last result of that message."""
    rows = parallel()
    _, made, (card,) = fold(rows)
    check_tree(rows[1:], made[1:])
    spawn = next(row for row in made if row["id"] == "00000002")
    assert ["call-2", "call-3"] == [b["id"] for b in spawn["message"]["content"] if b["type"] == "toolCall"]
    assert ["Two at once."] == texts(spawn)
    assert "toolUse" == spawn["message"]["stopReason"]
    order = [row["id"] for row in made]
    place = next(number for number, row in enumerate(made) if card in texts(row))
    assert order.index("0000000c") < place
    assert "0000000c" == made[place]["parentId"]


def test_text_of_the_spawning_message_stays(fold: Callable[..., Any]) -> None:
    """An assistant message that loses its last call gets `stopReason: "stop"`; its text stays."""
    rows = one_task()
    rows[2]["message"]["content"].insert(0, text_block("I will delegate this."))
    _, made, _ = fold(rows)
    spawn = next(row for row in made if row["id"] == "00000002")
    assert (["I will delegate this."], "stop") == (texts(spawn), spawn["message"]["stopReason"])
    check_tree(rows[1:], made[1:])


def test_references_are_re_pointed(fold: Callable[..., Any]) -> None:
    """Label `targetId`, `firstKeptEntryId` and the like that point at a removed entry go to the card."""
    rows = one_task()
    rows.append(entry("label", "0000000a", "00000008", 80, targetId="00000003", label="here"))
    rows.append(
        entry("compaction", "0000000b", "0000000a", 81, summary="s", firstKeptEntryId="00000002", tokensBefore=9)
    )
    rows.append(assistant("0000000c", "0000000b", 82, [text_block("After.")]))
    _, made, (card,) = fold(rows)
    check_tree(rows[1:], made[1:])
    (place,) = [row["id"] for row in made if card in texts(row)]
    found = {row["id"]: row for row in made}
    assert (place, place) == (found["0000000a"]["targetId"], found["0000000b"]["firstKeptEntryId"])


def test_user_turn_in_between(fold: Callable[..., Any]) -> None:
    """A kept user turn inside: the first sentence of `resultat` says when it was completed."""
    between = [
        message("0000000a", "00000004", 10, "user", "And the weather?"),
        assistant("0000000b", "0000000a", 11, [text_block("Sunny.")]),
    ]
    for language, sentence in (
        ("en", "Completed at 07:07 UTC, later in this conversation."),
        ("de", "Abgeschlossen um 07:07 UTC, später in diesem Gespräch."),
    ):
        rows = one_task(between=between)
        _, made, (card,) = fold(rows, "--labels", language)
        check_tree(rows[1:], made[1:])
        assert dict(fields(card, language))[LABELS[language][3]].startswith(sentence)


def test_no_user_turn_in_between(fold: Callable[..., Any]) -> None:
    """Without a kept user turn in between there is no such sentence."""
    _, _, (card,) = fold(one_task())
    assert "later in this conversation" not in card


def test_repeats_go_too(fold: Callable[..., Any]) -> None:
    """Repeats of a folded lifecycle are removed with it."""
    rows = one_task()
    late = event_block(1, "again", "completed successfully", "The same once more.")
    rows[7:7] = [
        announce("00000009", "00000006", 62, 1, late),
        assistant("0000000a", "00000009", 63, [text_block("Yes.")]),
    ]
    rows[9]["parentId"] = "0000000a"
    _, made, found = fold(rows)
    check_tree(rows[1:], made[1:])
    assert 1 == len(found)
    assert "00000009" not in {row["id"] for row in made}


def test_reply_of_an_idle_session_stays(fold: Callable[..., Any], fixtures: Path) -> None:
    """The completion is the reply the user saw: it stays."""
    data = (fixtures / "lifecycles/spawndirect.jsonl").read_bytes()
    rows = [json.loads(text) for text in data.splitlines() if text]
    report, made, found = fold(data)
    check_tree(rows[1:], made[1:])
    assert len(found) == sum(one["action"] == "folded" for one in report["lifecycles"])
    replies = [
        row["id"]
        for row in rows
        if str(row.get("message", {}).get("__openclaw", {}).get("runId")).startswith("announce:v1:")
    ]
    assert 0 < len(replies)
    assert set(replies) <= {row["id"] for row in made}


def test_mess(fold: Callable[..., Any], fixtures: Path) -> None:
    """Folds nothing by default; with `--keep-last 0` run-1 only; nothing loses its result."""
    data = (fixtures / "lifecycles/29-lifecycle-mess.jsonl").read_bytes()
    rows = [json.loads(text) for text in data.splitlines() if text]
    report, made, found = fold(data)
    assert ([], rows) == (found, made)
    assert {"kept"} == {one["action"] for one in report["lifecycles"]}
    report, made, found = fold(data, "--keep-last", "0")
    check_tree(rows[1:], made[1:])
    assert (1, ["folded", "kept", "kept", "kept"]) == (len(found), [one["action"] for one in report["lifecycles"]])


def test_no_header(fold: Callable[..., Any]) -> None:
    """`compact` works on a file without header."""
    rows = one_task()[1:]
    _, made, found = fold(rows)
    check_tree(rows, made)
    assert 1 == len(found)


def test_facts_occur_in_the_source(fold: Callable[..., Any]) -> None:
    """Numbers, paths and identifiers in a card occur literally in the source."""
    answer = (
        "Added an idle timer of 300 seconds in src/services/mlx_idle_monitor.py (commit 9f3c2ab1).\n"
        "Changed config.json: the port is 18789. 42 tests pass. See https://example.org/x?y=1 for the report.\n"
        "Tried threading.Timer first, which failed with a race."
    )
    rows = one_task(task=ENGLISH, answer=answer)
    source = jsonl(rows).decode()
    _, _, (card,) = fold(rows)
    for token in re.findall(r"[\w./:?=-]*\d[\w./:?=-]*|[\w-]+/[\w./-]+", card):
        assert token.strip(".,:") in source, token
    assert "mlx_idle_monitor.py" in card and "18789" in card


def test_files_of_the_result(fold: Callable[..., Any]) -> None:
    """The document's card: new files stand in `files+`, changed ones in `files~`, several joined by `, `."""
    answer = (
        "The idle timer is in place.\n\nFiles created:\n- src/services/mlx_idle_monitor.py\n\n"
        "Files changed:\n- src/services/mlx_server.py\n- config.json\n"
    )
    _, _, (card,) = fold(one_task(task=ENGLISH, answer=answer))
    values = dict(fields(card, "en"))
    assert ("src/services/mlx_idle_monitor.py", "src/services/mlx_server.py, config.json") == (
        values.get("files+"),
        values.get("files~"),
    )


def test_card_is_short(fold: Callable[..., Any]) -> None:
    """The document: about 100 tokens stand for thousands: more than 90 % go."""
    report, _, _ = fold(one_task(task=ENGLISH, answer="The log says so and so on and on, line by line.\n" * 800))
    assert report["tokensBefore"] > 5000
    assert report["reduction"] > 0.9


def test_dry_run_shows_the_card(cli_json: Callable[..., Any], fold: Callable[..., Any], tmp_path: Path) -> None:
    """A dry run is the real plan: same report, no file; its `card` is the card."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(jsonl(one_task()))
    preview = cli_json("compact", path, "--dry-run")
    assert ["t.jsonl"] == [one.name for one in tmp_path.iterdir()]
    report, _, (card,) = fold(one_task())
    assert card == preview["lifecycles"][0]["card"]
    names = ("tokensBefore", "tokensAfter", "reduction", "contextTokensBefore", "contextTokensAfter")
    assert [report[name] for name in names] == [preview[name] for name in names]


def test_nothing_to_fold_copies_the_file(fold: Callable[..., Any], tmp_path: Path) -> None:
    """A file without lifecycles comes out as it went in, status 0."""
    report, _, found = fold(turns(sid(1)))
    assert ([], []) == (report["lifecycles"], found)
    assert jsonl(turns(sid(1))) == (tmp_path / "out.jsonl").read_bytes()


def test_unknown_child_tokens(fold: Callable[..., Any]) -> None:
    """`tokens n/a` → `childTokens: null`."""
    rows = one_task()
    rows[5] = announce(
        "00000005",
        "00000004",
        60,
        1,
        event_block(
            1,
            "x",
            "completed successfully",
            "All is done.",
            STATS.replace("53.8k (in 37.3k / out 16.5k)", "n/a"),
        ),
    )
    report, _, _ = fold(rows)
    assert None is report["lifecycles"][0]["childTokens"]


def test_error_of_a_failed_task(fold: Callable[..., Any]) -> None:
    """`errors: none` only when there were none: the error that the status line names stands in the card."""
    _, _, (card,) = fold(one_task(status="failed: disk exploded", answer="It could not be built."))
    values = dict(fields(card, "en"))
    assert ("failed", "disk exploded") == (values["outcome"], values["errors"])
