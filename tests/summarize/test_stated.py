"""What an answer states: taken where it is headed, labelled or unmistakable, left alone everywhere else."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_cli.summarize.card import Card, Outcome, render
from openclaw_cli.summarize.stated import Stated, read


@pytest.mark.parametrize(
    "label",
    [
        "Files created:",
        "Created files:",
        "New files:",
        "**Files created:**",
        "## Created",
        "Neue Dateien:",
        "Angelegt:",
        "Erstellte Dateien (2):",
        "files+:",
        "dateien+:",
        "- Files created:",
        "✅ Created files:",
        "1. **New files**:",
    ],
)
@pytest.mark.parametrize(
    "entries",
    [
        "- src/a.py\n- b.json",
        "* `src/a.py`\n* **b.json**",
        "  1. src/a.py (new)\n  2. b.json",
        "  - src/a.py\n\n  - b.json",
        "src/a.py\nb.json",
        "```\nsrc/a.py\nb.json\n```",
        "\n  - src/a.py\n  - b.json",
    ],
)
def test_headed_lists_of_files(label: str, entries: str) -> None:
    """Any of the headings over bullets, numbers, plain lines or a block; what is told leaves the prose."""
    if label.startswith("- ") and entries.startswith(("- ", "* ")):
        pytest.skip("these bullets stand beside the label, not under it")
    told = read(f"It works.\n\n{label}\n{entries}\n\nAll tests pass.")
    assert ("src/a.py", "b.json") == told.created
    assert ["It works.", "All tests pass."] == told.prose.split("\n\n")[:1] + told.prose.strip().split("\n")[-1:]
    assert "a.py" not in told.prose


@pytest.mark.parametrize(
    "line",
    [
        "Files changed: src/b.py, config.json",
        "Modified: src/b.py and config.json",
        "**Changed files**: `src/b.py`, `config.json`.",
        "Geänderte Dateien: src/b.py und config.json",
        "dateien~: src/b.py, config.json",
        "- files~: src/b.py; config.json",
    ],
)
def test_labels_with_one_line_of_values(line: str) -> None:
    """A label and its comma-separated values."""
    assert Stated("Done.", changed=("src/b.py", "config.json")) == read(f"Done.\n{line}")


def test_the_demo_like_answer() -> None:
    """Sections directly under each other, labels of every kind; the prose keeps what no value tells."""
    told = read(
        "Der Import ist fertig.\n\nNeue Dateien:\n- src/neu.py\nGeänderte Dateien:\n- src/alt.py\n- c.json\n\n"
        "Versucht und verworfen: Zeitzonen aus dem Kopf — zwei Portale lassen ihn weg.\n"
        "Merken: Termine enden am Folgetag;\nder Abreisetag ist DTEND.\nFehler: keine\n\nTestlauf:\n64 passed"
    )
    assert (("src/neu.py",), ("src/alt.py", "c.json"), ()) == (told.created, told.changed, told.errors)
    assert ("Zeitzonen aus dem Kopf — zwei Portale lassen ihn weg.",) == told.tried
    assert ("Termine enden am Folgetag;",) == told.remember
    assert ["Der Import ist fertig.", "der Abreisetag ist DTEND.", "Testlauf:", "64 passed"] == [
        line for line in told.prose.split("\n") if line
    ]


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("Tried and failed:", "tried"),
        ("versucht_und_gescheitert:", "tried"),
        ("Remember:", "remember"),
        ("Note for later:", "remember"),
        ("Wichtig:", "remember"),
        ("## Errors", "errors"),
        ("Fehler:", "errors"),
    ],
)
def test_texts(label: str, name: str) -> None:
    """Entries of several lines become one each, without marks of bold and code."""
    told = read(f"Done.\n\n{label}\n- `threading.Timer` — a **race**\n  in the pool\n- polling\n\nEnd.")
    assert ("threading.Timer — a race in the pool", "polling") == getattr(told, name)
    assert ["Done.", "", "", "End."] == told.prose.split("\n")


def test_a_sentence_that_goes_on_is_not_cut_in_two() -> None:
    """A value that is unfinished goes on in a next line that begins small."""
    told = read("Remember: the server restarts only\non an explicit request.\nThe rest is prose.")
    assert (("the server restarts only on an explicit request.",), "The rest is prose.") == (told.remember, told.prose)


@pytest.mark.parametrize(
    ("sentence", "created", "changed"),
    [
        ("Created src/a.py.", ["src/a.py"], []),
        ("I created `src/a.py` and modified src/b.py and config.json.", ["src/a.py"], ["src/b.py", "config.json"]),
        ("- Modified src/b.py and config.json", [], ["src/b.py", "config.json"]),
        ("Updated the files src/b.py, src/c.py.", [], ["src/b.py", "src/c.py"]),
        ("src/a.py angelegt.", ["src/a.py"], []),
        ("Datei src/b.py wurde geändert.", [], ["src/b.py"]),
    ],
)
def test_sentences_that_state_a_change(sentence: str, created: list[str], changed: list[str]) -> None:
    """A verb and paths, nothing else: the sentence leaves the prose, its neighbours stay."""
    assert Stated("", tuple(created), tuple(changed)) == read(sentence)
    assert "All is well." == read(f"All is well.\n{sentence}").prose
    assert "All is well." == read(f"{sentence.removeprefix('- ').removesuffix('.')}. All is well.").prose


def test_a_statement_that_says_more_stays() -> None:
    """What else the sentence says is told nowhere else."""
    answer = "Changed config.json: the port is 18789."
    assert Stated(answer, changed=("config.json",)) == read(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "I looked at src/a.py and it is fine.",
        "The bug is in src/a.py. It was created by src/gen.py.",
        "Changed config.json back to what it was.",
        "Created src/a.py, then deleted it again.",
        "Created src/a.py (removed later).",
        "Added CI/CD. Updated Node.js. Added read/write support. Modified threading.Timer.",
        "No files changed: src/a.py is as it was.",
        "Not modified: src/a.py",
        "src/a.py wurde nicht geändert.",
        "Next: modify src/a.py",
        "> Created src/a.py.",
        "```\nCreated src/a.py.\nFiles created: src/b.py\n```",
        "Changed: the port is 18789",
        "Created:\n- an account for the tests",
        "Files changed: 3",
        "Remember to restart the server.",
        "Errors were found and fixed.",
        "## Errors\nNo errors occurred during the run.",
        "Errors: there were no failures",
        "Modified:src/a.py",
        "Files created:\n- /**a\n- src/**/x.py",
        "",
    ],
)
def test_what_states_nothing(answer: str) -> None:
    """A mention, a negation, a change that was taken back, a quotation, a block of code, other uses of the words."""
    assert Stated(answer) == read(answer)


@pytest.mark.parametrize(
    "line", ["Files changed: none", "Neue Dateien: keine", "Errors: none.", "Fehler: keine", "Merken: -"]
)
def test_none(line: str) -> None:
    """A label that says none is told by the card's form."""
    assert Stated("Done.") == read(f"Done.\n{line}")


def test_no_space_is_an_error() -> None:
    """An error that begins with the word no is one."""
    assert ("No space left on device",) == read("Errors: No space left on device").errors


def test_a_line_that_says_more_stays() -> None:
    """The path is taken, the description stays readable; what is no path is no file."""
    told = read("Files changed:\n- src/a.py — adds the timer\n  and its test\n- the docs\n- b.md\n")
    assert Stated("- src/a.py — adds the timer\n  and its test\n- the docs\n", changed=("src/a.py", "b.md")) == told


def test_created_wins_and_nothing_is_told_twice() -> None:
    """A file that was made and then changed is new."""
    told = read("Created files: a.py, b.py, a.py\nModified files: b.py, c.py, c.py")
    assert (("a.py", "b.py"), ("c.py",)) == (told.created, told.changed)


def test_half_a_line_is_not_believed() -> None:
    """Where a very long answer was cut in the middle, the lines beside the cut may be half."""
    told = read("Files created:\n- src/a.py\n- src/serv\n[…]\nice.py\n- x")
    assert ("src/a.py",) == told.created


def test_an_answer_that_is_a_card() -> None:
    """The document's card is read by the card's own parser, fenced or not."""
    card = Card(
        "Timer bauen",
        "Timer gebaut.\nEr läuft.",
        outcome=Outcome.SUCCESS,
        created=("src/timer.py",),
        changed=("src/server.py", "config.json"),
        tried="threading.Timer — Race-Condition",
        remember="Nur auf Anfrage neu laden",
    )
    text = render(card)
    for answer in (text, f"\n{text}\n", f"```text\n{text}\n```"):
        told = read(answer)
        assert (card.result, card.created, card.changed) == (told.prose, told.created, told.changed)
        assert ((card.tried,), (card.remember,), ()) == (told.tried, told.remember, told.errors)
        assert (card.task, Outcome.SUCCESS) == (told.task, told.outcome)
    assert card.created == read(text.replace("ursprung: agent\n", "")).created


WORDS = ["Files created:", "Modified:", "Errors:", "Merken:", "- src/a.py", "b.json, c.md", "  - d/e", "```", "x y", ""]
LINES = st.lists(st.one_of(st.sampled_from(WORDS), st.text(alphabet="ab ./-*`:#>,…[]", max_size=12)), max_size=12)


@given(LINES.map("\n".join))
def test_nothing_is_invented_or_lost(answer: str) -> None:
    """Every value stands in the answer, and every word of it is in the prose, a value, or a mark or label."""
    told = read(answer)
    for path in (*told.created, *told.changed):
        assert path in answer
    rest = " ".join([told.prose, *told.created, *told.changed, *told.errors, *told.tried, *told.remember])
    for word in ("src/a.py", "b.json", "c.md", "d/e", "x y"):
        assert (word in answer) == (word in rest)


@pytest.mark.parametrize(
    "piece", ["„a.py,", "`a", "Files created:\n", "- a\n", ": ", "**", "[a](", "Created a.py and ", "x\n"]
)
def test_hostile_answers_take_linear_time(piece: str) -> None:
    """The longest text that a card is made from is read at once."""
    start = time.process_time()
    read(piece * (49_152 // len(piece)))
    read("Remember:\n" + piece * (49_152 // len(piece)))
    assert time.process_time() - start < 2
