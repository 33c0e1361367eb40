"""Entry point of `openclaw-cli` and of `python -m openclaw_cli`.

`--version` and the top help are answered from static text before the command-line parser is imported, which costs five
times as much as the answer. A test compares the text with what the parser itself would say.
"""

from __future__ import annotations

import sys

HELP_FILE = "data/help.txt"


def main() -> int:
    """Run one command line and return its exit status."""
    argv = sys.argv[1:]
    text = static_answer(argv)
    if text is not None:
        return _print(text)
    from openclaw_cli.cli.app import run

    return run(argv)


def static_answer(argv: list[str]) -> str | None:
    """The output of a command line that needs no parser; None for every other one."""
    if argv in (["--version"], ["-V"]):
        from openclaw_cli import __version__

        return f"openclaw-cli {__version__}\n"
    if argv in ([], ["--help"], ["-h"]):
        with open(f"{__file__.rpartition('/')[0]}/{HELP_FILE}", encoding="utf-8") as file:
            return file.read()
    return None


def _print(text: str) -> int:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the flush at exit must not fail again
        return 141
    return 0


if __name__ == "__main__":
    sys.exit(main())
