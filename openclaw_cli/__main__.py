"""Entry point of `openclaw-cli` and of `python -m openclaw_cli`."""

from __future__ import annotations

import sys


def main() -> int:
    """Run one command line and return its exit status."""
    from openclaw_cli.cli.app import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
