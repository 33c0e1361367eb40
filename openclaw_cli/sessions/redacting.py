"""Secrets taken out of texts before they leave: keys, tokens, passwords, mail addresses, home directories. Pure.

What looks like a secret is replaced by its kind in brackets. Numbers, names and code stay. It is a help, no promise: a
secret of a form of its own is not known here.
"""

from __future__ import annotations

import re
from typing import Any

# (kind, what a text must have in lower case for the pattern to be tried, pattern): most texts have none of it.
_RULES: tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...] = (
    (
        "private-key",
        ("private key-----",),
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    ),
    ("token", ("eyj",), re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?")),
    ("token", ("sk-", "pk-", "rk-"), re.compile(r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}")),
    (
        "token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "aiza", "akia", "asia", "hf_", "npm_"),
        re.compile(
            r"\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}|\bglpat-[A-Za-z0-9_-]{16,}"
            r"|\bxox[abprs]-[A-Za-z0-9-]{10,}|\bAIza[A-Za-z0-9_-]{30,}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
            r"|\bhf_[A-Za-z0-9]{20,}|\bnpm_[A-Za-z0-9]{30,}"
        ),
    ),
    ("token", (":aa",), re.compile(r"\b\d{8,10}:AA[A-Za-z0-9_-]{30,}")),
    ("token", ("bearer ",), re.compile(r"(?<=[Bb]earer )[A-Za-z0-9._~+/=-]{8,}")),
    ("password", ("://",), re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")),
    (
        "secret",
        ("key", "secret", "token", "passw", "authorization", "credential"),
        re.compile(
            r"(?i)(?<![a-z])((?:api[_-]?key|secret|token|passw(?:or)?d|passwd|authorization|credential)s?"
            r"[\"']?\s*[:=]\s*[\"']?)(?!\[|\d+\b)[^\s\"',;]{4,}"
        ),
    ),
    ("mail", ("@",), re.compile(r"\b[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+\b")),
    ("home", ("/home/", "/users/", "\\users\\"), re.compile(r"(?:/home/|/Users/|[A-Za-z]:\\Users\\)[^/\\\s\"':]+")),
)
_NAMES = re.compile(r"(?i)(?:api[_-]?key|secret|token|passw(?:or)?d|authorization|credential|cookie)s?$")


def redacted(text: str) -> str:
    """The text without what looks like a secret."""
    plain = text.lower()
    for kind, needed, pattern in _RULES:
        if any(part in plain for part in needed):
            text = pattern.sub(lambda found, kind=kind: f"{_kept(found)}[{kind}]", text)
    return text


def _kept(found: re.Match[str]) -> str:
    """What stays in front of a secret that is known by its name."""
    return found[1] if found.re.groups else ""


def redacted_value(value: Any, name: str = "") -> Any:
    """JSON with every text redacted; the values of members whose name says that they are secret are gone whole.

    Ids and parents stay as they are, so that the transcript can still be read as one.
    """
    if isinstance(value, dict):
        return {key: redacted_value(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [redacted_value(item, name) for item in value]
    if isinstance(value, str):
        return "[secret]" if _NAMES.search(name) and value else redacted(value)
    return value
