"""A codewhale server as a process that answers like a recorded one.

A request gets the first unused recorded answer to the same method and params, or else to the same method and thread.
The params that servers require since 0.10.2 do not count, because the recorded servers are older.
The lines recorded before that answer come first, in the recorded order. The answer has the id of the actual request. If
an interrupt was recorded in the middle of a turn, the server waits for one there. Each session has its own child
process, which plays the whole recording.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.adapters.stdio.programs import python

CODE = """
    import json, sys

    rows = []
    for line in open(sys.argv[1], encoding="utf-8", newline="\\n"):
        row = json.loads(line)
        if "dir" in row and row["frame"].strip():
            try:
                rows.append((row["dir"], json.loads(row["frame"])))
            except ValueError:
                rows.append((row["dir"], None))
    NEW = ("operation_key", "allowed_tools")

    def usual(frame):
        params = frame.get("params") or {}
        if not isinstance(params, dict):
            return frame
        params = {k: v for k, v in params.items() if k not in NEW}
        if frame.get("method") != "thread/request":
            return dict(frame, params=params) if "params" in frame else frame
        kind = str(params.get("kind")).replace("goal_", "goal/")
        return dict(frame, method="thread/" + kind, params={k: v for k, v in params.items() if k != "kind"})

    rows = [(way, usual(frame) if way == "c2s" and isinstance(frame, dict) else frame) for way, frame in rows]
    asked = [at for at, (way, frame) in enumerate(rows) if way == "c2s" and isinstance(frame, dict)]
    out = sys.stdout.buffer

    def write(value, id=None):
        value = dict(value, id=id) if "jsonrpc" in value else value
        out.write(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\\n")
        out.flush()

    def recorded(request):
        request = usual(request)
        def like(at, *names):
            frame = rows[at][1]
            return all(frame.get(name) == request.get(name) for name in names)
        thread = (request.get("params") or {}).get("thread_id")
        for names in (("method", "params"), ("method",)):
            for at in asked:
                if like(at, *names) and (rows[at][1].get("params") or {}).get("thread_id") == thread:
                    asked.remove(at)
                    return at

    def answer(at, request):
        id, later = rows[at][1].get("id"), []
        for way, frame in rows[at + 1:]:
            if way == "c2s":
                if isinstance(frame, dict) and frame.get("method") == "thread/interrupt":
                    later.append((frame, json.loads(sys.stdin.buffer.readline())))
                    assert later[-1][1]["method"] == "thread/interrupt", later[-1]
            elif "type" in frame:
                write(frame)
            elif frame.get("id") == id:
                write(frame, request.get("id"))
                break
        for known, said in later:
            asked.remove(next(at for at in asked if rows[at][1] is known))
            write(next(f for way, f in rows if way == "s2c" and f.get("id") == known["id"]), said["id"])

    for line in sys.stdin.buffer:
        request = json.loads(line)
        at = recorded(request)
        if at is not None:
            answer(at, request)
        elif request["method"] == "capabilities":
            write({"jsonrpc": "2.0", "result": {"methods": json.loads(sys.argv[2])}}, request["id"])
        elif request["method"] == "thread/resume":
            thread = request["params"]["thread_id"]
            error = {"code": -32004, "message": "thread not found: " + thread, "data": None}
            write({"jsonrpc": "2.0", "error": error}, request["id"])
        else:
            error = {"code": -32603, "message": "not recorded: " + request["method"], "data": None}
            write({"jsonrpc": "2.0", "error": error}, request["id"])
"""


def captured_codewhale(path: Path, folder: Path, methods: list[str]) -> str:
    """Return the upstream endpoint that spawns the server; `methods` are its capabilities if they were not recorded."""
    program = folder / "codewhale_player.py"
    program.write_text(python(CODE)[-1], "utf-8")
    can = json.dumps(methods, separators=(",", ":"))
    return f"codewhale+stdio:{sys.executable} -I -S {program} {path} '{can}'"
