"""The commands that findings name. A test holds that each of ours exists."""

from __future__ import annotations

SHOW_CONFIG = "openclaw-cli config show --origin"
REAL_FIX = "openclaw doctor --fix"
"""OpenClaw's own repair, with the gateway stopped; for what only the program that owns the rows may change."""


def of(agent_id: str, verb: str) -> str:
    """`openclaw-cli doctor VERB` for the store of one agent."""
    return f"openclaw-cli doctor {verb} --agent {agent_id}"


def recover_all() -> str:
    """The command that closes migration runs."""
    return "openclaw-cli doctor recover --all-agents"


def listing(agent_id: str) -> str:
    """The command that shows the sessions of one agent."""
    return f"openclaw-cli sessions list --agent {agent_id}"
