"""Which icon and colour of a session 2026.9.6 keeps (store format §10 "Other entry fields").

An icon is one emoji, the name of a built-in glyph or a self-contained SVG picture; everything else is left out of the
entry by the real program, at the next write at the latest.
"""

from __future__ import annotations

import base64
import binascii
import re
from functools import cache
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

import orjson

from openclaw_cli.jstext import JS_WHITESPACE

GLYPHS = frozenset(("braces", "book", "monitor", "bot", "kanban", "coins"))
COLORS = frozenset(("red", "blue", "green", "yellow", "purple", "orange", "pink", "cyan"))

_LONGEST_PICTURE = 49_216
"""UTF-16 units of an icon value that is looked at as a picture."""
_LARGEST_SVG_BYTES = 16_384
_PREFIX = "data:image/svg+xml,"
_DATA_URL = re.compile(r"data:image/svg\+xml(?:;charset=utf-8)?(;base64)?,", re.IGNORECASE)
_ESCAPES = re.compile("%(?![0-9A-Fa-f]{2})")
_SPACE = f"[{re.escape(JS_WHITESPACE)}]*"
_WORD = "[A-Za-z0-9_]"
_UNSAFE = re.compile(
    rf"\0|<!doctype|<!entity|<{_SPACE}(?:script|foreignObject|image|use|iframe)(?!{_WORD})"
    rf"|(?<!{_WORD})(?:href|xlink:href|src){_SPACE}=",
    re.IGNORECASE,
)
_ROOT = re.compile(
    rf"{_SPACE}(?:<\?xml[^>]*>{_SPACE})?(?:<!--(?:(?!-->).)*-->{_SPACE})*+<svg(?:>|/>|[{re.escape(JS_WHITESPACE)}])",
    re.IGNORECASE | re.DOTALL,
)


def normal_color(value: object) -> str | None:
    """One of COLORS, None for everything else."""
    folded = value.strip(JS_WHITESPACE).lower() if isinstance(value, str) else None
    return folded if folded in COLORS else None


def normal_icon(value: object) -> str | None:
    """The icon as it is stored, None when it is none."""
    trimmed = value.strip(JS_WHITESPACE) if isinstance(value, str) else ""
    if not trimmed:
        return None
    if trimmed in GLYPHS:
        return trimmed
    if trimmed.startswith("<") or trimmed[:5].lower() == "data:":
        return _picture(trimmed)
    return trimmed if is_emoji(trimmed) else None


def _picture(value: str) -> str | None:
    if len(value.encode("utf-16-le", "surrogatepass")) > 2 * _LONGEST_PICTURE:
        return None
    url = _DATA_URL.match(value)
    try:
        source = _payload(value[url.end() :], is_base64=url.group(1) is not None) if url else value
        source = source.strip(JS_WHITESPACE)
        if len(source.encode("utf-8")) > _LARGEST_SVG_BYTES or _UNSAFE.search(source) or not _ROOT.match(source):
            return None
    except (ValueError, binascii.Error):
        return None
    return _PREFIX + quote(source, safe="-_.!~*'()")


def _payload(payload: str, *, is_base64: bool) -> str:
    """The text of a data URL. Raises ValueError for bad escapes and bytes that are no UTF-8."""
    if is_base64:
        packed = re.sub("[\t\n\f\r ]", "", payload)
        packed = packed.rstrip("=") if len(packed) % 4 == 0 else packed
        return base64.b64decode(packed + "=" * (-len(packed) % 4), validate=True).decode("utf-8-sig")
    if _ESCAPES.search(payload):
        raise ValueError("a percent sign without two digits")
    return unquote_to_bytes(payload).decode("utf-8")


def is_emoji(text: str) -> bool:
    """Whether `text` is one emoji that Unicode recommends for interchange (RGI_Emoji)."""
    return _pattern().fullmatch(text) is not None


@cache
def _pattern() -> re.Pattern[str]:
    """The whole set as one expression; the data file has ranges and sequences with places for skin tones."""
    data = orjson.loads((Path(__file__).parent.parent / "data" / "emoji.json").read_bytes())
    tone = "[\U0001f3fb-\U0001f3ff]"
    regions = "|".join("".join(chr(0xE0000 + ord(letter)) for letter in name) for name in data["regions"])
    flags = "|".join(
        "".join(chr(0x1F1E6 + ord(letter) - ord("a")) for letter in name) for name in data["flags"].split()
    )
    # In the second group the two tones differ.
    joined = [re.escape(form).replace(r"\*", tone) for form in data["joined"]]
    joined += [re.escape(form).replace(r"\*", f"(?P<t{index}>{tone})", 1).replace(r"\*", f"(?!(?P=t{index})){tone}")
               for index, form in enumerate(data["joined_two_tones"])]  # fmt: skip
    forms = (
        f"[{_ranges(data['single'])}]",
        f"[{_ranges(data['presented'])}]\ufe0f",
        f"[{_ranges(data['toned'])}]{tone}",
        f"[{re.escape(data['keycaps'])}]\ufe0f\u20e3",
        flags,
        f"\U0001f3f4(?:{regions})\U000e007f",
        *joined,
    )
    return re.compile("|".join(forms))


def _ranges(text: str) -> str:
    parts = []
    for item in text.split():
        first, _, last = item.partition("-")
        parts.append(chr(int(first, 16)) if not last else f"{chr(int(first, 16))}-{chr(int(last, 16))}")
    return "".join(parts)
