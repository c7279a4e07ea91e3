"""Messages from and to a pod, for the tests of the gateway (docs/dialects/pod.md, sections 5 and 6)."""

from __future__ import annotations

from typing import Any

Frame = dict[str, Any]

GREETING = {
    "pod_name": "atlas",
    "cwd": "/srv",
    "provider": "anthropic",
    "model": "m",
    "scope_summary": "",
    "tools": [],
    "context_window": 1000,
    "context_tokens": 0,
}
CANCEL: Frame = {"method": "cancel"}


def say(event: str, **data: Any) -> Frame:
    """Return an event with this content."""
    return {"event": event, "data": data} if data else {"event": event}


def snapshot(*entries: Frame, status: str = "idle") -> Frame:
    """Return the snapshot that a pod sends to each client that connects."""
    return say("snapshot", entries=list(entries), greeting=GREETING, status=status)


def user_entry(text: str) -> Frame:
    """Return an input in the pod's log."""
    return {"kind": "user_input", "segments": [{"kind": "text", "content": text}], "ts": 1}


def answer_entry(text: str) -> Frame:
    """Return an answer in the pod's log."""
    item = {"kind": "message", "role": "assistant", "content": [{"kind": "text", "text": text}]}
    return {"kind": "assistant_item", "item": item, "ts": 1}


def run_entries(text: str, *items: Frame, end: Frame | None = None) -> tuple[Frame, ...]:
    """Return a run in the pod's log, as a real pod writes it: the input, what followed, and the end if the run
    is over.
    """
    begun = ({"kind": "invoke", "trigger": "user_send", "ts": 1}, user_entry(text), *items)
    return begun if end is None else (*begun, {"kind": "turn_end", "turn_count": 1, "ts": 1}, end)


def completed(result: str = "finished", *, interrupted: bool = False) -> Frame:
    """Return the end of a completed run in the pod's log."""
    return {"kind": "run_completed", "interrupted": interrupted, "result": result, "ts": 1}


def errored(text: str) -> Frame:
    """Return the end of a failed run in the pod's log; a cancelled run has the text `Cancelled`."""
    return {"kind": "run_errored", "interrupted": True, "message": text, "ts": 1}


def call_entries(call: str, name: str, output: str) -> tuple[Frame, ...]:
    """Return a tool call and its result in the pod's log."""
    called = {"kind": "tool_call", "call_id": call, "name": name, "arguments": "{}"}
    result = {"kind": "tool_result", "call_id": call, "summary": "", "content": output}
    return {"kind": "assistant_item", "item": called, "ts": 1}, {"kind": "tool_result", "item": result, "ts": 1}


def logged(role: str, text: str) -> Frame:
    """Return a message in the history of a segment."""
    return {"kind": "message", "role": role, "content": [{"kind": "text", "text": text}]}


def rotated(*history: Frame) -> Frame:
    """Return the event of a new segment that begins with this history."""
    entry = {
        "kind": "segment_start",
        "ts": 1,
        "session_id": "0198c3a1-7b52-7c40-9d1e-5f0a6b7c8d9e",
        "system_prompt": None,
        "config": {},
        "history": list(history),
    }
    return say("segment_rotated", entry=entry)


def echo(text: str) -> Frame:
    """Return the event of an accepted input."""
    return say("user_message", segments=[{"kind": "text", "content": text}])


def status(value: str) -> Frame:
    """Return the event of a changed status."""
    return say("status", status=value)


def took(text: str) -> tuple[Frame, Frame]:
    """Return the events of an accepted input."""
    return echo(text), status("running")


def delta(text: str) -> Frame:
    """Return the event of further streamed text."""
    return say("text_delta", text=text)


def done(text: str) -> Frame:
    """Return the event of a complete text block."""
    return say("text_done", text=text)


def run_end(result: str) -> Frame:
    """Return the event at the end of a run's output."""
    return say("run_end", result=result)


def problem(code: str, text: str) -> Frame:
    """Return an error event."""
    return say("error", code=code, message=text)


FINISHED = (run_end("finished"), status("idle"))


def run(text: str) -> Frame:
    """Return the method that a pod receives when a client sends a message."""
    return {"method": "run", "params": {"input": [{"kind": "text", "content": text}]}}
