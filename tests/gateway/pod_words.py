"""What a pod says and is told, as the tests of the gateway write it (pod sheet, sections 5 and 6)."""

from __future__ import annotations

from typing import Any

__all__ = [
    "CANCEL", "FINISHED", "delta", "done", "echo", "problem", "rotated", "run", "run_end", "say", "snapshot",
    "status", "took", "user_entry",
]  # fmt: skip

Frame = dict[str, Any]

GREETING = {
    "pod_name": "atlas", "cwd": "/srv", "provider": "anthropic", "model": "m", "scope_summary": "", "tools": [],
    "context_window": 1000, "context_tokens": 0,
}  # fmt: skip
CANCEL: Frame = {"method": "cancel"}


def say(event: str, **data: Any) -> Frame:
    """Any event."""
    return {"event": event, "data": data} if data else {"event": event}


def snapshot(*entries: Frame, status: str = "idle") -> Frame:
    """What it shows to whoever connects."""
    return say("snapshot", entries=list(entries), greeting=GREETING, status=status)


def user_entry(text: str) -> Frame:
    """An input in its log."""
    return {"kind": "user_input", "segments": [{"kind": "text", "content": text}], "ts": 1}


def answer_entry(text: str) -> Frame:
    """An answer in its log."""
    item = {"kind": "message", "role": "assistant", "content": [{"kind": "text", "text": text}]}
    return {"kind": "assistant_item", "item": item, "ts": 1}


def logged(role: str, text: str) -> Frame:
    """A message of a segment's history."""
    return {"kind": "message", "role": role, "content": [{"kind": "text", "text": text}]}


def rotated(*history: Frame) -> Frame:
    """A new segment that begins with this history."""
    entry = {
        "kind": "segment_start", "ts": 1, "session_id": "0198c3a1-7b52-7c40-9d1e-5f0a6b7c8d9e", "system_prompt": None,
        "config": {}, "history": list(history),
    }  # fmt: skip
    return say("segment_rotated", entry=entry)


def echo(text: str) -> Frame:
    """An accepted input."""
    return say("user_message", segments=[{"kind": "text", "content": text}])


def status(value: str) -> Frame:
    """It changed its state."""
    return say("status", status=value)


def took(text: str) -> tuple[Frame, Frame]:
    """It took an input."""
    return echo(text), status("running")


def delta(text: str) -> Frame:
    """More of the answer."""
    return say("text_delta", text=text)


def done(text: str) -> Frame:
    """A whole block of the answer."""
    return say("text_done", text=text)


def run_end(result: str) -> Frame:
    """The output of a run is over."""
    return say("run_end", result=result)


def problem(code: str, text: str) -> Frame:
    """An error."""
    return say("error", code=code, message=text)


FINISHED = (run_end("finished"), status("idle"))


def run(text: str) -> Frame:
    """What it is told when a client sends a message."""
    return {"method": "run", "params": {"input": [{"kind": "text", "content": text}]}}
