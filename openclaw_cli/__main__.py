"""Entry point of `openclaw-cli` and of `python -m openclaw_cli`.

`--version` and the top help are answered from static text before the command-line parser is imported, which costs five
times as much as the answer. A test compares the text with what the parser itself would say.
"""

from __future__ import annotations

import sys

from openclaw_cli.cli import streams

HELP_FILE = "data/help.txt"


def main() -> int:
    """Run one command line and return its exit status."""
    streams.prepare()
    argv = sys.argv[1:]
    try:
        text = static_answer(argv)
        if text is not None:
            return streams.printed(text)
        from openclaw_cli.cli.app import run

        return run(argv)
    except KeyboardInterrupt:
        # Before the run began, or a second time while it was being wound up.
        print("openclaw-cli: interrupted", file=sys.stderr)  # noqa: T201
        return 130


def static_answer(argv: list[str]) -> str | None:
    """The output of a command line that needs no parser; None for every other one."""
    if argv in (["--version"], ["-V"]):
        from openclaw_cli import __version__

        return f"openclaw-cli {__version__}\n"
    if argv in ([], ["--help"], ["-h"]):
        with open(f"{__file__.rpartition('/')[0]}/{HELP_FILE}", encoding="utf-8") as file:
            return file.read()
    return None


if __name__ == "__main__":
    sys.exit(main())
