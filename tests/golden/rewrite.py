"""Write everything that is made from the command tree anew: `python tests/golden/rewrite.py`.

That is `man/`, `completions/`, `openclaw_cli/data/help.txt` and the help pages under `tests/golden/help/`. Files there
that no command makes any more are removed. Look at the difference before you keep it.
"""

from __future__ import annotations

from pathlib import Path

from openclaw_cli.cli.reference import generated_files

ROOT = Path(__file__).resolve().parent.parent.parent


def main() -> None:
    """Bring the files of the project to what the command tree says now."""
    wanted = generated_files()
    for folder in ("man", "completions", "tests/golden/help"):
        for path in (ROOT / folder).glob("*"):
            if path.relative_to(ROOT).as_posix() not in wanted:
                path.unlink()
    for name, text in wanted.items():
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
