"""The file by which a parent pod finds a pod that it started: SESSIONS/pods/NAME/metadata.json.

A parent inspects or attaches to a child only if this file exists (docs/dialects/pod.md, section 10). By the ids in it a
parent restores a child that has died. A file that exists already is the state of another pod: it is neither changed nor
removed. Ours is removed when we end, because a real pod cannot continue our conversation.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from msgspec import UNSET, Struct, UnsetType

from dragoman.gateway.launched.state_file import write_state


class ActiveSegment(Struct, frozen=True, kw_only=True):
    """The conversation of a pod; ours has one id, which stands for its only segment too."""

    session_id: str
    segment_id: str


class Metadata(Struct, frozen=True, kw_only=True):
    """The content of the file; `active` is missing until the pod has a conversation."""

    pod_name: str
    active: ActiveSegment | UnsetType = UNSET


class ChildState:
    """The state of the pod `name` in the folder of the pods' sessions, as its parent reads it."""

    def __init__(self, sessions: Path, name: str) -> None:
        self._name = name
        self._path = sessions / "pods" / name / "metadata.json"
        self._written: Metadata | None = None

    def write(self, session: str = "") -> None:
        """Write the file, with the id of the conversation if there is one. A write error is only logged."""
        active = ActiveSegment(session_id=session, segment_id=session) if session else UNSET
        metadata = Metadata(pod_name=self._name, active=active)
        if metadata == self._written or (self._written is None and self._path.exists()):
            return
        if write_state(self._path, metadata, "the parent pod cannot inspect this pod"):
            self._written = metadata

    def remove(self) -> None:
        """Remove the file if it is ours."""
        if self._written is not None:
            self._path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # the folder has other files
                self._path.parent.rmdir()
