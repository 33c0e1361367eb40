"""Icons and colours of a session."""

from __future__ import annotations

import pytest

from openclaw_cli.migration.icons import is_emoji, normal_color, normal_icon


@pytest.mark.parametrize("icon", ["🦊", "❤️", "👍🏽", "1️⃣", "🇩🇪", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "👩🏽‍💻", "👩🏻‍🤝‍👨🏿", "👨‍👩‍👧‍👦", "bot"])
def test_one_emoji_or_a_glyph_is_kept(icon: str) -> None:
    """Simple emoji, sequences of every kind and the names of built-in glyphs are icons."""
    assert icon == normal_icon(f" {icon}\n")


@pytest.mark.parametrize(
    "icon", ["", " ", "fox", "A", "1", "#", "🦊🦊", "a🦊", "❤", "🇩", "👩🏻‍🤝‍👩🏻‍", 5, None, ["🦊"]]
)
def test_everything_else_is_no_icon(icon: object) -> None:
    """Text, several emoji, parts of sequences and other types are none."""
    assert normal_icon(icon) is None


def test_two_people_with_one_skin_tone_are_another_emoji() -> None:
    """Where a sequence has two tones they differ; equal ones are written in a shorter way."""
    assert [True, False, True] == [is_emoji(text) for text in ("👩🏻‍🤝‍👨🏿", "👩🏻‍🤝‍👨🏻", "👫🏻")]


@pytest.mark.parametrize(
    ("icon", "expected"),
    [
        ("<svg/>", "data:image/svg+xml,%3Csvg%2F%3E"),
        (
            '<?xml version="1.0"?><!--a--><SVG x="ü"/>',
            "data:image/svg+xml,%3C%3Fxml%20version%3D%221.0%22%3F%3E%3C!--a--%3E%3CSVG%20x%3D%22%C3%BC%22%2F%3E",
        ),
        ("<!-- a --> <svg >", "data:image/svg+xml,%3C!--%20a%20--%3E%20%3Csvg%20%3E"),
        ("data:image/svg+xml,%3Csvg%3E%3C%2Fsvg%3E", "data:image/svg+xml,%3Csvg%3E%3C%2Fsvg%3E"),
        ("data:image/svg+xml;base64,PHN2Zz48L3N2Zz4=", "data:image/svg+xml,%3Csvg%3E%3C%2Fsvg%3E"),
        ("data:image/svg+xml;charset=utf-8;base64,PHN2Zz48L3N2Zz4", "data:image/svg+xml,%3Csvg%3E%3C%2Fsvg%3E"),
        ("<svg><script>1</script></svg>", None),
        ("<svg onload='x' href = 'y'/>", None),
        ("<!DOCTYPE svg><svg/>", None),
        ("<div/>", None),
        ("<!-- a --> text <svg/>", None),
        ("data:image/svg+xml,%ZZ", None),
        ("data:image/svg+xml,%FF", None),
        ("data:image/svg+xml;base64,!!!!", None),
        ("data:image/png;base64,AA==", None),
        ("<svg " + "a" * 16_384 + ">", None),
        ("<svg>\ud800</svg>", None),
    ],
)
def test_pictures(icon: str, expected: str | None) -> None:
    """A picture is an SVG that needs nothing from outside, stored in one form."""
    assert expected == normal_icon(icon)


def test_colors() -> None:
    """A colour is one of eight names."""
    assert ["red", "cyan", None, None] == [normal_color(value) for value in (" RED ", "cyan", "mauve", 5)]
