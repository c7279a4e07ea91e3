"""Descriptions of a session for pod clients: greeting, inspection and rotation.

A client that attaches gets the alerts, then one snapshot (docs/dialects/pod.md, section 3), which snapshot.py renders.
A client that already has its snapshot gets a changed history as a rotation.
"""

from __future__ import annotations

from dragoman.mappings.canonical.state import SessionState
from dragoman.mappings.canonical.values import BackendInfo, Status
from dragoman.mappings.pod.entries import segment_start
from dragoman.mappings.pod.vocabulary import given
from dragoman.mappings.pod.wire import events as wire


def greeting(backend: BackendInfo) -> wire.Greeting:
    """Return the backend's description as a pod's greeting."""
    return wire.Greeting(
        pod_name=backend.name,
        cwd=backend.cwd,
        provider=backend.provider or "unknown",
        model=backend.model,
        scope_summary=given(backend.ext, "scope_summary", str, ""),
        tools=list(backend.tools),
        context_window=given(backend.ext, "context_window", int, 0),
        context_tokens=given(backend.ext, "context_tokens", int, 0),
    )


def described(name: str, status: Status) -> dict[str, object]:
    """Return a session in the form of a pod's inspection, without a socket path: clients stay on this connection."""
    return {
        "pod_name": name,
        "visibility": "self_pod",
        "live": {"socket_path": "", "reachable": True, "status": status},
        "restore": {"possible": False, "reason": "sessions of a gateway are not restored by name"},
        "spawned_children": {"count": 0, "reachable": 0, "unreachable": 0},
    }


def rotation(state: SessionState, at: int) -> wire.SegmentRotated:
    """Return the session as a rotation, for a client that already has its snapshot."""
    entry = segment_start(state.conversation or state.id, state.transcript, at)
    return wire.SegmentRotated(data=wire.SegmentRotated.Data(entry=entry))
