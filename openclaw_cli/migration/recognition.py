"""Whether what a path names is OpenClaw's: an index by its content, a transcript by its header.

In an agent's sessions directory the place says it. Elsewhere a path may be a slip of the hand (`package.json` beside
somebody's data), and an import would take every JSONL file there away.
"""

from __future__ import annotations

import re

from openclaw_cli.config.paths import INDEX_NAME, Target, agent_of_path
from openclaw_cli.errors import RefusedError
from openclaw_cli.migration import discovery
from openclaw_cli.migration.index import Index, read_index

_UNREADABLE = ("store_unreadable", "store_not_object")
_UUID_NAME = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def in_agent_directory(target: Target) -> bool:
    """Whether the sessions directory is that of an agent by the layout of a state directory."""
    folder = target.sessions_dir
    return folder.name == "sessions" and agent_of_path(folder / INDEX_NAME) is not None


def why_foreign(target: Target, index: Index, *, rebuild: bool = False) -> str | None:
    """Why the file at the place of the index is none, None when it may be one.

    An index is a JSON object of which most members are objects with a sessionId, or `{}` where indexes lie. A torn
    `sessions.json` may be one, but outside an agent's directory its transcripts are not taken (`rebuild`) on its word.
    """
    if not index.exists or _by_its_place(target):
        return None
    if any(issue.code in _UNREADABLE for issue in index.issues):
        torn_index = index.path.name == INDEX_NAME and not rebuild
        return None if torn_index else "it is no JSON object"
    if not index.entries and not index.issues:
        usual = index.path.name == INDEX_NAME or index.path.parent.name == "sessions"
        return None if usual else "it is empty"
    if len(index.entries) >= max(1, len(index.issues)):
        return None
    return f"{len(index.issues)} of its {len(index.issues) + len(index.entries)} members name no session"


def require_index(target: Target, index: Index | None = None, *, rebuild: bool = False) -> None:
    """Refuse a file that is no index, before anything is written. Raises `RefusedError`."""
    if _by_its_place(target):
        return
    why = why_foreign(target, index or read_index(target.store_path), rebuild=rebuild)
    if why is not None:
        raise RefusedError(
            f"{target.store_path} is not a session index: {why}; nothing was changed",
            hint="name the sessions.json of an agent, or the .sqlite file",
            code="not_a_session_index",
            storePath=str(target.store_path),
        )


def is_transcript(source: discovery.Source) -> bool:
    """Whether a file that no row names is a transcript: by its header, or by a session's name before a torn one."""
    try:
        header = discovery.read_header(source.path)
    except OSError:
        return False  # What cannot be read is not taken away.
    if header.kind == "damaged":
        return _UUID_NAME.fullmatch(discovery.id_in_name(source.name)) is not None
    return header.kind == "session"


def _by_its_place(target: Target) -> bool:
    return target.store_path.name == INDEX_NAME and in_agent_directory(target)
