"""The group `doctor`: one module for each command or kind of command, in the order of its help."""

from __future__ import annotations

import typer

from openclaw_cli.cli import (
    doctor_check,
    doctor_compact,
    doctor_fix,
    doctor_migrate,
    doctor_recover,
    doctor_restore,
    doctor_snapshot,
    options,
)

MEMBERS = (doctor_migrate, doctor_restore, doctor_recover, doctor_compact, doctor_fix, doctor_check, doctor_snapshot)


def register(app: typer.Typer) -> None:
    """Add the group `doctor`."""
    group = options.group(app, "doctor")
    for member in MEMBERS:
        member.register(group)
