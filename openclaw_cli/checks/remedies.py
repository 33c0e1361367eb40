"""The commands that findings name. A test holds that each of ours exists."""

from __future__ import annotations

import shlex

SHOW_CONFIG = "openclaw-cli config show --origin"
FIX = "openclaw-cli doctor fix"
"""Puts rows and settings in order; for a finding that is of no single store."""


def of(agent_id: str, verb: str) -> str:
    """`openclaw-cli doctor VERB` for the store of one agent."""
    return f"openclaw-cli doctor {verb} --agent {agent_id}"


def successor(agent_id: str, key: str) -> str:
    """The command that writes a corrected successor of the transcript of `key`."""
    return f"openclaw-cli sessions fork {shlex.quote(key)} --agent {agent_id} --repair"


def recover_all() -> str:
    """The command that closes migration runs."""
    return "openclaw-cli doctor recover --all-agents"


def listing(agent_id: str) -> str:
    """The command that shows the sessions of one agent."""
    return f"openclaw-cli sessions list --agent {agent_id}"
