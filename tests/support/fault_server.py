"""A warm process that forks: each fork runs the program once with one fault in it, or looks at what is left.

    python tests/support/fault_server.py

One request a line on stdin, one answer a line on stdout, both JSON. A fork starts within a few milliseconds because
every module is loaded already; no database is open in the process that forks. A request has:

* `pristine`, `state`: the state directory is made anew from the first at the second path;
* `argv`: the run that is cut; `at`, `kind`, `closed`, `links`: how (see cutting.Cutter); with `mount` the closed
  directory is a mount that is read-only, and the seam is not needed;
* `then`: the runs behind it, undisturbed, in another fork, which then says what the state holds.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cutting
from left_behind import DATABASES, contents, digests, files, history

import openclaw_cli.cli.doctor_migrate
import openclaw_cli.cli.doctor_recover
import openclaw_cli.cli.doctor_restore
import openclaw_cli.cli.sessions_cleanup
from openclaw_cli.cli import app
from openclaw_cli.migration import importing, previewing, recovering, restoring
from openclaw_cli.retention import applying, budget, cleaning
from openclaw_cli.storage import lockfile

LOADED = (
    openclaw_cli.cli.doctor_migrate,
    openclaw_cli.cli.doctor_recover,
    openclaw_cli.cli.doctor_restore,
    openclaw_cli.cli.sessions_cleanup,
    applying,
    budget,
    cleaning,
    importing,
    previewing,
    recovering,
    restoring,
    lockfile,
)


def forked(work: Callable[[], Any], output: Path) -> tuple[int, Any]:
    """Run `work` in a fork; gives its wait status and what it returned (None when it died)."""
    report = output.with_suffix(".json")
    report.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        status = 70
        try:
            log = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(log, 1)
            os.dup2(log, 2)
            sys.stdout = os.fdopen(1, "w", closefd=False)
            sys.stderr = os.fdopen(2, "w", closefd=False)
            result = json.dumps(work()).encode()
            with open(report, "wb") as file:
                file.write(result)
            status = 0
        except BaseException as error:
            # A fork must not return into the loop of its parent.
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)  # noqa: T201
        os._exit(status)
    _, waited = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(waited), json.loads(report.read_bytes()) if report.exists() else None


def _mount_read_only(place: Path) -> None:
    """Lay a read-only mount over a directory; only this process sees it."""
    libc = ctypes.CDLL(None, use_errno=True)
    at = os.fsencode(place)
    new_namespace, private, bind, read_only = 0x20000, 0x44000, 0x1000, 0x1021
    calls = (
        (libc.unshare, (new_namespace,)),
        (libc.mount, (None, b"/", None, private, None)),
        (libc.mount, (at, at, None, bind, None)),
        (libc.mount, (None, at, None, read_only, None)),
    )
    for call, arguments in calls:
        if call(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "no read-only mount")


def _cut(request: dict[str, Any], state: Path) -> dict[str, Any]:
    closed = state / request["closed"] if request.get("closed") is not None else None
    if closed is not None and request.get("mount"):
        _mount_read_only(closed)
        closed = None
    cutter = cutting.Cutter(
        state.parent, at=request.get("at"), kind=request.get("kind", ""), closed=closed,
        links=request.get("links", True),
    )  # fmt: skip
    held = cutting.install(cutter)
    status = app.run(request["argv"])
    sys.stdout.flush()
    del held
    return {"status": status, "points": cutter.points}


def _then(request: dict[str, Any], state: Path, output: Path) -> dict[str, Any]:
    runs = []
    for argv in request["then"]:
        output.write_bytes(b"")
        os.lseek(1, 0, os.SEEK_SET)
        status = app.run(argv)
        sys.stdout.flush()
        runs.append({"argv": argv, "status": status, "said": output.read_text("utf-8", "replace")})
    held = {"history": history(state)} if request.get("history") else {}
    return {"runs": runs, **contents(state), **held}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Do one request."""
    state = Path(request["state"])
    shutil.rmtree(state, ignore_errors=True)
    shutil.copytree(request["pristine"], state, symlinks=True)
    before = sorted(str(path.relative_to(state)) for path in state.glob(DATABASES))
    output = Path(request["output"])
    status, cut = forked(lambda: _cut(request, state), output.with_suffix(".cut"))
    after = {
        "digests": digests(state),
        "databases_gone": [name for name in before if not (state / name).exists()],
        "said": output.with_suffix(".cut").read_text("utf-8", "replace")[-4000:],
    }
    if request.get("history"):
        after["history"] = forked(lambda: history(state), output.with_suffix(".history"))[1]
    _, ended = forked(lambda: _then(request, state, output.with_suffix(".then")), output.with_suffix(".then"))
    if ended is None:
        ended = {"died": output.with_suffix(".then").read_text("utf-8", "replace")[-4000:]}
    return {"exit": status, "cut": cut, "after": after, "ended": {**ended, "files": files(state)}}


def main() -> None:
    """The loop."""
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
