"""Where a value comes from: flag, environment, our YAML, OpenClaw's JSON5, default."""

from __future__ import annotations

from openclaw_cli.config.environment import environment
from openclaw_cli.config.paths import Target, normalize_agent_id, resolve_state_dir, targets
from openclaw_cli.config.settings import Config, Setting, load

__all__ = [
    "Config",
    "Setting",
    "Target",
    "environment",
    "load",
    "normalize_agent_id",
    "resolve_state_dir",
    "targets",
]
