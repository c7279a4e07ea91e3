"""A codewhale server as a program of its own, which the tests spawn: what it says, what it does, and its inner server.

It speaks the default generation (codewhale sheet, sections 2, 3 and 10), keeps its threads beside it in a folder as
a real one does in its store, and forgets what was said in them when it ends.

    thread/message "crash"      it is killed          "flood"     10 MB on stderr first
                   "mute"       no answer             other       streamed back, word by word
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.adapters.stdio.programs import python

__all__ = ["child"]

CODE = """
    import json, os, signal, subprocess, sys, uuid

    mark, manners, store = sys.argv[1:4]
    deaf = manners == "deaf"
    quiet = "import signal; [signal.signal(n, signal.SIG_IGN) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]"
    if manners == "dies":
        sys.exit("no configuration")
    if deaf:
        exec(quiet)
    code = (quiet if deaf else "import signal") + "\\nwhile True: signal.pause()"
    inner = subprocess.Popen([sys.executable, "-I", "-S", "-c", code, mark], stdin=subprocess.DEVNULL)
    methods = ["healthz", "capabilities", "thread/start", "thread/resume", "thread/message", "thread/interrupt"]

    def write(value):
        sys.stdout.write(json.dumps(value, separators=(",", ":"), ensure_ascii=False) + "\\n")
        sys.stdout.flush()

    def thread(id, cwd):
        return {"id": id, "preview": "New conversation", "ephemeral": True, "model_provider": "deepseek",
            "created_at": 1, "updated_at": 1, "status": "running", "cwd": cwd, "cli_version": "0.9.10",
            "source": "interactive"}

    def opened(id, status, params):
        open(os.path.join(store, id), "w").close()
        cwd = params.get("cwd") or os.getcwd()
        return {"thread_id": id, "status": status, "thread": thread(id, cwd), "threads": [], "model": "auto",
            "model_provider": "deepseek", "cwd": cwd, "events": [],
            "data": {"history": [], "checkpoint": None, "goal": None}}

    def message(params):
        text, id = params["input"], f"thr_1:{uuid.uuid4()}"
        if text == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        if text == "flood":
            for _ in range(1000):
                sys.stderr.write("x" * 9999 + "\\n")
        if text == "mute":
            signal.pause()
        write({"type": "response_start", "response_id": id})
        for word in text.split(" "):
            write({"type": "response_delta", "response_id": id, "delta": word + " "})
        write({"type": "response_end", "response_id": id})
        return {"thread_id": params["thread_id"], "status": "accepted", "thread": None, "threads": [], "model": None,
            "model_provider": None, "cwd": None, "approval_policy": None, "sandbox": None, "events": [],
            "data": {"turn_id": "turn_1"}}

    def result(method, params):
        if method == "capabilities":
            return {"transport": "stdio", "families": ["thread/*", "app/*", "prompt/*"], "methods": methods}
        if method == "thread/start":
            return opened("thread-" + str(uuid.uuid4()), "started", params)
        if method == "thread/resume" and os.path.exists(os.path.join(store, params["thread_id"])):
            return opened(params["thread_id"], "resumed", params)
        if method == "thread/list":
            rows = [thread(id, os.getcwd()) for id in sorted(os.listdir(store))]
            return {"thread_id": "list", "status": "ok", "threads": rows, "events": [], "data": {}}
        if method == "thread/message":
            return message(params)
        if method == "app/models":
            return {"ok": True, "data": {"models": [{"id": "auto", "pid": os.getpid()}]}, "events": []}

    for line in sys.stdin:
        request = json.loads(line)
        found = result(request["method"], request.get("params") or {})
        answer = {"jsonrpc": "2.0", "id": request.get("id")}
        if found is None:
            write(answer | {"error": {"code": -32603, "message": "no", "data": None}})
        else:
            write(answer | {"result": found})
    while deaf:
        signal.pause()
    inner.terminate()
    inner.wait()
"""


def child(mark: str, store: Path, manners: str = "orderly") -> str:
    """The upstream endpoint that spawns it; every process of it has `mark` among its arguments.

    `orderly`: EOF ends it and its inner server; `deaf`: neither EOF nor TERM does; `dies`: at its start.
    """
    folder = store / "threads"
    folder.mkdir(exist_ok=True)
    program = store / "codewhale_child.py"
    if not program.exists():
        program.write_text(python(CODE)[-1], "utf-8")
    return f"codewhale+stdio:{sys.executable} -I -S {program} {mark} {manners} {folder}"
