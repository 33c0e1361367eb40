"""A gateway that says what it was told to: answers by method, or the frames of a recording."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.server import ServerConnection, serve

METHODS = ["health", "sessions.list", "sessions.describe", "sessions.patch", "sessions.delete", "sessions.cleanup",
           "agents.delete"]  # fmt: skip
TOKEN = "t0ken-of-the-test"
Answer = Callable[[dict[str, Any]], dict[str, Any] | None]


class FakeGateway:
    """`answers`: method → what gives the members of the response; None: no answer at all. `requests`: what came."""

    def __init__(self, state_dir: str | None, answers: dict[str, Answer] | None = None) -> None:
        self.state_dir = state_dir
        self.answers = answers or {}
        self.requests: list[dict[str, Any]] = []
        self.methods = list(METHODS)
        self.port = 0

    def hello(self) -> dict[str, Any]:
        """What it says of itself."""
        snapshot = {} if self.state_dir is None else {"stateDir": self.state_dir}
        return {"type": "hello-ok", "protocol": 4, "features": {"methods": self.methods}, "snapshot": snapshot}

    def talk(self, socket: ServerConnection) -> None:
        """One connection."""
        _send(socket, {"type": "event", "event": "connect.challenge", "payload": {"nonce": "n", "ts": 1}})
        for text in socket:
            request = json.loads(text)
            self.requests.append(request)
            method = request["method"]
            if method == "connect":
                given = request["params"]["auth"].get("token")
                if given != TOKEN:
                    error = {"code": "INVALID_REQUEST", "message": "no", "details": {"code": "AUTH_TOKEN_MISMATCH"}}
                    _send(socket, {"type": "res", "id": request["id"], "ok": False, "error": error})
                    socket.close(1008)
                    return
                _send(socket, {"type": "res", "id": request["id"], "ok": True, "payload": self.hello()})
                continue
            # Something that nobody waits for comes in between.
            _send(socket, {"type": "event", "event": "tick", "payload": {}})
            _send(socket, {"type": "res", "id": "another", "ok": True, "payload": {"wrong": 1}})
            answer = self.answers[method](request["params"])
            if answer is not None:
                _send(socket, {"type": "res", "id": request["id"], **answer})


class Recorded(FakeGateway):
    """Plays the frames of a recording; `ends`: how it ends the connection behind the last one."""

    def __init__(self, path: Path, ends: int | str | None = None) -> None:
        super().__init__(None)
        self.frames = [each for each in json.loads(path.read_text()) if each["dir"] != "http"]
        self.ends = ends

    def talk(self, socket: ServerConnection) -> None:
        """Give what was given, in the order in which it was; an answer takes the id of what was asked."""
        asked = ""
        for each in self.frames:
            if each["dir"] in ("gw->cli", "recv"):
                frame = each["frame"]
                _send(socket, {**frame, "id": asked} if frame.get("type") == "res" else frame)
            elif each["dir"] in ("cli->gw", "send"):
                request = json.loads(socket.recv())
                self.requests.append(request)
                asked = request["id"]
            elif each["dir"] == "close":
                socket.close(each["frame"]["code"])
                return
        if self.ends == "die":
            socket.socket.close()
        elif isinstance(self.ends, int):
            socket.close(self.ends)
        else:
            time.sleep(0.5)


def _send(socket: ServerConnection, frame: dict[str, Any]) -> None:
    socket.send(json.dumps(frame))


@contextmanager
def running(gateway: FakeGateway) -> Iterator[FakeGateway]:
    """The gateway on a free port of this host."""
    with serve(gateway.talk, "127.0.0.1", 0, compression=None) as server:
        gateway.port = server.socket.getsockname()[1]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield gateway
        finally:
            server.shutdown()
            thread.join(timeout=5)
