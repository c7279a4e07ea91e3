"""A codewhale server that tests spawn as a process: its output, its actions, and its inner server.

It speaks the default generation (docs/dialects/codewhale.md, sections 2, 3 and 10). It keeps its threads in a folder
beside it, as a real server does in its store. Like a real server it stores no messages, so the history of a thread is
always empty. While a turn runs, it executes only `thread/interrupt` and answers all other requests after the turn.

    thread/message "crash"      it is killed          "flood"     10 MB on stderr first
                   "mute"       no answer             "wait ..."  streams its words and waits for an interrupt
                   other        streams the words back
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.adapters.stdio.programs import python

CODE = """
    import collections, json, os, signal, subprocess, sys, uuid

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

    pending = collections.deque()

    def interrupted(thread):
        for line in filter(str.strip, sys.stdin):
            request = json.loads(line)
            pending.append(request)
            if request["method"] == "thread/interrupt":
                request["stopped"] = True
                return True

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
        stopped = text.startswith("wait") and interrupted(params["thread_id"])
        write({"type": "response_end", "response_id": id})
        if stopped:
            return "turn interrupted"
        return {"thread_id": params["thread_id"], "status": "accepted", "thread": None, "threads": [], "model": None,
            "model_provider": None, "cwd": None, "approval_policy": None, "sandbox": None, "events": [],
            "data": {"turn_id": "turn_1"}}

    def result(method, params):
        if method == "capabilities":
            facts = {"tool_free_turns": True} if manners == "guest" else {}
            transport = "unix-socket" if manners == "guest" else "stdio"
            families = ["thread/*", "app/*", "prompt/*"]
            return {"transport": transport, "families": families, **facts, "methods": methods}
        if method == "thread/start":
            return opened("thread-" + str(uuid.uuid4()), "started", params)
        if method == "thread/resume" and os.path.exists(os.path.join(store, params["thread_id"])):
            echoed = {name: params[name] for name in ("approval_policy", "sandbox") if name in params}
            return opened(params["thread_id"], "resumed", params) | echoed
        if method == "thread/read":
            known = os.path.exists(os.path.join(store, params["thread_id"]))
            shown = {"thread": thread(params["thread_id"], os.getcwd())} if known else {}
            return {"thread_id": params["thread_id"], "status": "ok", **shown, "threads": [], "events": [],
                "data": {"history": [], "checkpoint": None, "goal": None}}
        if method == "thread/resume":
            data = {"error": "thread_not_found", "thread_id": params["thread_id"]}
            return {"code": -32004, "message": "thread not found: " + params["thread_id"], "data": data}
        if method == "thread/list":
            rows = [thread(id, os.getcwd()) for id in sorted(os.listdir(store))]
            return {"thread_id": "list", "status": "ok", "threads": rows, "events": [], "data": {}}
        if method == "thread/message":
            return message(params)
        if method == "app/models":
            return {"ok": True, "data": {"models": [{"id": "auto", "pid": os.getpid()}]}, "events": []}

    while line := pending or sys.stdin.readline():
        if line == "\\n":
            continue
        request = pending.popleft() if pending else json.loads(line)
        params = request.get("params") or {}
        if request["method"] == "thread/interrupt":
            found = {"thread_id": params["thread_id"], "interrupted": "stopped" in request}
        else:
            found = result(request["method"], params) or "no"
        answer = {"jsonrpc": "2.0", "id": request.get("id")}
        if isinstance(found, str):
            write(answer | {"error": {"code": -32603, "message": found, "data": None}})
        elif "code" in found:
            write(answer | {"error": found})
        else:
            write(answer | {"result": found})
    while deaf:
        signal.pause()
    inner.terminate()
    inner.wait()
"""


def child(mark: str, store: Path, manners: str = "orderly") -> str:
    """Return the upstream endpoint that spawns the server; each of its processes has `mark` among its arguments. An
    `orderly` one ends itself and its inner server at EOF. A `deaf` one ignores EOF and TERM. One that `dies` ends at
    its start. A `guest` is orderly, and tells that another process owns its threads (section 12).
    """
    folder = store / "threads"
    folder.mkdir(exist_ok=True)
    program = store / "codewhale_child.py"
    if not program.exists():
        program.write_text(python(CODE)[-1], "utf-8")
    return f"codewhale+stdio:{sys.executable} -I -S {program} {mark} {manners} {folder}"
