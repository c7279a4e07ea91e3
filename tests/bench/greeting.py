"""The greeting of a bridge that plays a pod: a client needs it, and no bridge has anything to say in it."""

from __future__ import annotations

GREETING = {
    "pod_name": "bridge",
    "cwd": "",
    "provider": "unknown",
    "model": "",
    "scope_summary": "",
    "tools": [],
    "context_window": 0,
    "context_tokens": 0,
}
