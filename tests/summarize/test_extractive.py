"""Cards without a model: nothing invented, whole sentences, a budget that is kept."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_cli import tokens
from openclaw_cli.summarize.card import Card, Labels, Origin, Outcome, render
from openclaw_cli.summarize.extractive import (
    CARD_MAX_TOKENS,
    Material,
    error_lines,
    file_changes,
    shorten,
    summarise,
)


def words(text: str) -> int:
    """A cheap stand-in for a token counter."""
    return len(re.findall(r"\w+|[^\w\s]", text))


def material(**values: object) -> Material:
    """Material with made-up defaults."""
    base: dict[str, object] = {
        "task": "Check the timeout of the query. Then report.",
        "label": None,
        "answer": "Set it to 30 s in db/pool.py. Tests pass (12 of 12).",
        "status": None,
        "origin": Origin.AGENT,
        "outcome": Outcome.SUCCESS,
    }
    return Material(**{**base, **values})  # type: ignore[arg-type]


TEXTS = st.text(alphabet=st.sampled_from("ab1 .\n/_-#*`!?ü\\─,:"), max_size=400)


@given(TEXTS, TEXTS, st.integers(10, 200))
def test_nothing_is_invented(task: str, answer: str, budget: int) -> None:
    """Every word of task and result stands in the material, apart from fixed words and one marked as cut."""
    card = summarise(material(task=task, answer=answer), words, budget_tokens=budget, labels=Labels.ENGLISH)
    known = set(task.split()) | set(answer.split()) | {"…", "no", "result", "text"}
    known |= {w for t in known for w in (t.lstrip("#*-•>"),)}
    for value in (card.task, card.result):
        for word in set(value.split()) - known:
            assert word.endswith("…")
            assert any(whole.startswith(word[:-1]) for whole in known)


@given(TEXTS, TEXTS)
def test_the_budget_is_kept(task: str, answer: str) -> None:
    """A card of 160 tokens has 160 at most when facts do not demand more."""
    card = summarise(material(task=task, answer=answer), words)
    assert words(render(card)) <= 160 + 12


def test_real_counts_keep_the_budget() -> None:
    """With the exact counter, a long answer is cut between sentences."""
    answer = " ".join(f"Step {n} changed module_{n}.py and passed." for n in range(200))
    card = summarise(material(answer=answer), tokens.count)
    assert tokens.count(render(card)) <= 160
    assert answer.startswith(card.result)
    assert card.result.endswith("passed.")


def test_one_long_sentence_is_cut_between_words() -> None:
    """No word is cut, and the cut shows."""
    text = "alpha " * 500
    short = shorten(text, 10, words)
    assert short.endswith(" …")
    assert {"alpha", "…"} == set(short.split())


def test_label_is_part_of_the_task_unless_it_repeats_it() -> None:
    """The label says what later messages call the task."""
    assert "pool — Check the timeout of the query. Then report." == summarise(material(label="pool"), words).task
    assert summarise(material(label="the timeout"), words).task.startswith("Check")


def test_layout_marks_of_an_answer_are_left_out() -> None:
    """Headings, bullets, fences and rules only lay a text out."""
    answer = "## Result\n\n- first thing\n* second thing\n---\n```python\nx = 1\n```"
    assert "Result\nfirst thing\nsecond thing\nx = 1" == summarise(material(answer=answer), words).result


@pytest.mark.parametrize(("status", "expected"), [("timed out", "timed out"), (None, "no result text")])
def test_without_an_answer_the_status_speaks(status: str | None, expected: str) -> None:
    """A time-out has no answer."""
    assert expected == summarise(material(answer=None, status=status), words).result


def test_later_in_this_conversation() -> None:
    """The first sentence tells that the outcome came later than the card stands."""
    card = summarise(material(later="14:03", answer="Done."), words)
    assert "Completed at 14:03 UTC, later in this conversation. Done." == card.result


@pytest.mark.parametrize(
    ("outcome", "status", "answer", "expected"),
    [
        (Outcome.FAILED, "failed: disk exploded", "It could not be built.", "disk exploded"),
        (Outcome.FAILED, "error: exit code 2", None, "exit code 2"),
        (Outcome.FAILED, "failed", "It broke.", "failed"),
        (Outcome.TIMEOUT, "timed out: after 60s", "Half done.", "after 60s"),
        (Outcome.TIMEOUT, "timed out", None, "timed out"),
        (Outcome.FAILED, "failed: disk full", "OSError: disk full", "OSError: disk full"),
        (Outcome.TIMEOUT, "timed out", "Half done.\nErrors: disk full", "disk full"),
        (Outcome.FAILED, "failed: step 2", "OSError: disk full", "step 2; OSError: disk full"),
        (Outcome.CANCELLED, "cancelled: by the owner", None, "by the owner"),
        (Outcome.CANCELLED, "cancelled", None, ""),
        (Outcome.SUCCESS, "completed successfully", "OSError: came and went", ""),
        (Outcome.UNKNOWN, "finished with unknown status", None, ""),
    ],
)
def test_the_status_is_an_error(outcome: Outcome, status: str, answer: str | None, expected: str) -> None:
    """What failed or ran out of time never says that there was no error, and no error is told twice."""
    assert expected == summarise(material(outcome=outcome, status=status, answer=answer), words).errors


def test_a_long_status_is_cut_between_words() -> None:
    """A status of many lines is one line of bounded length."""
    errors = summarise(material(outcome=Outcome.FAILED, status="failed: " + "no\nroom " * 500), words).errors
    assert errors.startswith("no room no room")
    assert errors.endswith(" …")
    assert words(errors) <= 60


def test_files_of_calls_and_of_the_answer_are_one_list() -> None:
    """Calls come first, then the answer; new wins over changed; `./a.py` is `a.py`."""
    card = summarise(
        material(
            created=("a.py",), changed=("b.py",), answer="Done.\nNew files: c.py, ./a.py\nModified: ./a.py, b.py, d.py"
        ),
        words,
    )
    assert (("a.py", "c.py"), ("b.py", "d.py"), "Done.") == (card.created, card.changed, card.result)


def test_stated_values_have_their_lines() -> None:
    """The document's example comes out of an answer that states it."""
    answer = (
        "Timer added. It unloads the server.\n\nFiles created:\n- src/idle.py\n\n"
        "Files changed: src/server.py, config.json\nTried and failed: threading.Timer — race\n"
        "Remember: reload on request only\n"
    )
    lines = render(summarise(material(answer=answer), words)).split("\n")
    assert [
        "result: Timer added. It unloads the server.",
        "files+: src/idle.py",
        "files~: src/server.py, config.json",
        "errors: none",
        "tried_and_failed: threading.Timer — race",
        "remember: reload on request only",
    ] == lines[4:-1]


def test_an_answer_that_is_a_card_is_taken_over() -> None:
    """Values of the child's card; task and outcome are ours where they are known."""
    inner = Card(
        "Inner", "Built.\nTested.", outcome=Outcome.FAILED, created=("a.py",), errors="one test fails", tried="x"
    )
    card = summarise(material(answer=render(inner)), words, labels=Labels.GERMAN)
    assert replace(inner, task="Check the timeout of the query. Then report.", outcome=Outcome.SUCCESS) == card
    unknown = material(answer=render(inner), task="", outcome=Outcome.UNKNOWN)
    assert inner == summarise(unknown, words, labels=Labels.GERMAN)


def test_facts_may_exceed_the_budget() -> None:
    """Thirty paths need more than 160 tokens and are all there; prose keeps its few words."""
    paths = [f"src/package/module_{number}.py" for number in range(30)]
    answer = "The work is done. " * 50 + "\n\nFiles created:\n" + "\n".join(f"- {path}" for path in paths)
    card = summarise(material(answer=answer), tokens.count)
    assert tuple(paths) == card.created
    assert 160 < tokens.count(render(card)) <= CARD_MAX_TOKENS
    assert card.result.startswith("The work is done.")


@pytest.mark.parametrize("budget", [20, 160, 600])
def test_a_list_that_is_too_long_shows_that_it_goes_on(budget: int) -> None:
    """Whole paths of both lists up to the cap, then `…`; texts are shortened; the cap holds."""
    lists = {name: [f"{name}/module_{number}.py" for number in range(400)] for name in ("created", "changed")}
    answer = "\n\n".join(f"Files {name}:\n" + "\n".join(paths) for name, paths in lists.items())
    answer += "\n\nRemember:\n" + "All words of this count. " * 200
    card = summarise(material(answer=answer), tokens.count, budget_tokens=budget)
    assert tokens.count(render(card)) <= max(budget, CARD_MAX_TOKENS)
    for name, paths in lists.items():
        *kept, mark = getattr(card, name)
        assert ("…", paths[: len(kept)]) == (mark, kept)
        assert len(kept) > 3
    assert card.remember.startswith("All words of this count.")
    assert tokens.count(card.remember) <= max(budget, CARD_MAX_TOKENS) // 6


def test_the_mark_of_a_cut_list_stays_at_its_end() -> None:
    """A card that is taken over and was cut says so after the merge, too."""
    inner = render(Card("t", "r", created=("b.py", "…"), changed=("c.py", "…"), labels=Labels.ENGLISH))
    card = summarise(material(answer=inner, created=("a.py",)), words)
    assert (("a.py", "b.py", "…"), ("c.py", "…")) == (card.created, card.changed)


def test_error_lines() -> None:
    """Lines that state an error; not those that speak of errors."""
    text = "There were no errors.\nValueError: bad width 7\nerror: disk full\nall fine\nFehler: kein Platz"
    assert ("ValueError: bad width 7", "error: disk full", "Fehler: kein Platz") == error_lines(text)


def test_file_changes() -> None:
    """write makes a file, edit changes one, a patch says it per file; other tools are not believed."""
    patch = "*** Begin Patch\n*** Add File: a.py\n+x\n*** Update File: b/c.py\n*** Delete File: d.py\n*** End Patch"
    assert [("n.py", True)] == list(file_changes("write", {"path": "n.py", "content": ""}))
    assert [("e.py", False)] == list(file_changes("edit", {"file_path": "e.py"}))
    assert [("a.py", True), ("b/c.py", False)] == list(file_changes("apply_patch", {"input": patch}))
    assert [] == list(file_changes("exec", {"path": "x"}))


@pytest.mark.parametrize(
    "answer", ["kein-satz-" * 400, "x" * 2_000_000, "é" * 5000, '{"a":["src/a.py",' * 300], ids=range(4)
)
def test_a_result_of_one_unbroken_word_is_cut_not_lost(answer: str) -> None:
    """Its beginning stands in the card, marked as cut, within the budget; never only the status."""
    card = summarise(material(answer=answer, status="completed successfully"), tokens.count)
    assert card.result.endswith("…")
    assert answer.startswith(card.result[:-1])
    assert 40 < len(card.result)
    assert tokens.count(render(card)) <= 160
    assert not card.result.removesuffix("…").endswith(("src/", "src/a", "src/a."))
