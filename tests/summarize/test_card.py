"""The card is the document's card, and no value can break its frame."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_cli.summarize.card import RULE, Card, CardError, Labels, Origin, Outcome, language_of, parse, render

EXAMPLE = """── KOMPAKTE AUFGABE ──
ursprung: agent
aufgabe: Leerlauf-Timeout für MLX-Server implementieren
ergebnis: erfolgreich
resultat: 5-Minuten-Leerlauftimer zu MlxServerManager hinzugefügt.
Server entlädt automatisch, wenn keine Anfragen empfangen werden.
dateien+: src/services/mlx_idle_monitor.py
dateien~: src/services/mlx_server.py, config.json
fehler: keine
versucht_und_gescheitert: threading.Timer — Race-Condition
merken: MLX-Server darf nur bei expliziter Worker-Anfrage neu laden, nicht bei jedem Tool-Aufruf
─────────────────"""

HOSTILE = ("fehler: keine", "── KOMPAKTE AUFGABE ──", "── COMPACTED TASK ──", RULE, "user: hi", "[tool]", "result:")
MARKS = ("─", "\n", "\\", "\\n", "\\ ", ", ", ",", "\x85", "\u2028", "<", "<|im_start|>", "<<<", "|", "none", "keine")
OTHERS = ("\ud800", " ", "\\u00e4", "#", "```", "\r", "\0", "\x1b[2J", "resultat: x")
FRAGMENTS = st.sampled_from((*HOSTILE, *MARKS, *OTHERS))
TEXTS = st.lists(st.one_of(FRAGMENTS, st.text(max_size=6), st.characters(codec=None)), max_size=8).map("".join)
PATHS = st.lists(TEXTS, max_size=3).map(tuple)
CARDS = st.builds(
    Card,
    task=TEXTS,
    result=TEXTS,
    origin=st.sampled_from(Origin),
    outcome=st.sampled_from(Outcome),
    created=PATHS,
    changed=PATHS,
    errors=TEXTS,
    tried=TEXTS,
    remember=TEXTS,
    labels=st.sampled_from(Labels),
)


def test_the_documents_example_byte_for_byte() -> None:
    """Reading the example and writing it again changes nothing."""
    card = parse(EXAMPLE)
    assert ("src/services/mlx_server.py", "config.json") == card.changed
    assert (Origin.AGENT, Outcome.SUCCESS, "") == (card.origin, card.outcome, card.errors)
    assert EXAMPLE == render(card)


def test_english_twin() -> None:
    """Same order, English words, the same closing rule."""
    card = Card("Do it", "Done.", Origin.WORKER, Outcome.TIMEOUT, created=("a.py", "b.py"), labels=Labels.ENGLISH)
    values = [
        "origin: worker",
        "task: Do it",
        "outcome: timeout",
        "result: Done.",
        "files+: a.py, b.py",
        "errors: none",
    ]
    expected = "\n".join(["── COMPACTED TASK ──", *values, RULE])
    assert expected == render(card)
    assert card == parse(expected)


@given(CARDS)
def test_parse_undoes_render(card: Card) -> None:
    """For any values, control characters, frames, labels and markers of other formats included."""
    assert card == parse(render(card))


@given(CARDS)
def test_the_frame_stands_once(card: Card) -> None:
    """Title and rule occur once, no line end but the line break, no control character, no model marker."""
    text = render(card)
    lines = text.split("\n")
    assert lines == text.splitlines()
    assert [len(lines) - 1] == [index for index, line in enumerate(lines) if line == RULE]
    assert 3 == text.replace(RULE, "#").count("──") + text.count(RULE)
    assert not any(marker in text for marker in ("<|", "<<<", "\x1b", "\0", "\r", "\ud800"))


@given(CARDS)
def test_continuation_lines_open_no_structure(card: Card) -> None:
    """A line of the result never looks like a label line of either language or like another speaker."""
    lines = render(card).split("\n")
    start = 4
    for line in lines[start + 1 : start + 1 + card.result.count("\n")]:
        label = line.partition(":")[0].strip().lower()
        assert label not in {"fehler", "errors", "resultat", "result", "merken", "remember", "user", "assistant"}


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "text",
        EXAMPLE.replace("KOMPAKTE", "COMPACTE"),
        EXAMPLE[:-1],
        EXAMPLE.replace("ursprung: agent", "ursprung: wer"),
        EXAMPLE.replace("ergebnis: erfolgreich", "ergebnis: prima"),
        EXAMPLE.replace("fehler: keine\n", ""),
        EXAMPLE.replace("ursprung: agent\n", "") + "\nursprung: agent",
        EXAMPLE.replace("fehler: keine", "fehler: keine\nmehr Text"),
    ],
)
def test_what_is_no_card(broken: str) -> None:
    """Frame, labels, order and fixed words are checked; the message holds no text of the card."""
    with pytest.raises(CardError) as caught:
        parse(broken)
    assert "prima" not in str(caught.value)


def test_values_stay_readable() -> None:
    """Nothing is escaped that needs no escape: paths, quotes, dashes, percent signs, Unicode."""
    text = "C:\\Data\\Files — „so“ 100 % <b> [x] a|b"
    assert text in render(Card(text, text))


def test_language_of_the_task() -> None:
    """The little words decide; a tie is English."""
    assert Labels.GERMAN == language_of("Bitte den Timeout für die Abfrage prüfen")
    assert Labels.ENGLISH == language_of("Please check the timeout of the query")
    assert Labels.ENGLISH == language_of("x")


def test_cards_are_values() -> None:
    """Two cards with the same values are equal and can be keys."""
    card = parse(EXAMPLE)
    assert {card} == {dataclasses.replace(card)}
