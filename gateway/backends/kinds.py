"""Choose the kind of a route's backend."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from dragoman.gateway.backends.conversations import ConversationsKind, ReplayedKind
from dragoman.gateway.backends.kind import BackendKind, MakeBackend
from dragoman.gateway.backends.pods import PodsKind
from dragoman.gateway.backends.shared_sessions import SharedKind
from dragoman.gateway.backends.single import SingleKind
from dragoman.gateway.pods.live import Pods
from dragoman.gateway.routing.sessions import Sessions
from dragoman.mappings.dialect import Dialect

__all__ = ["kind_of"]


Spawn = Callable[[Coroutine[Any, Any, None], str], None]


def kind_of(
    upstream: Dialect,
    make_backend: MakeBackend,
    *,
    pods: tuple[Pods, Spawn] | None = None,
    in_process: bool = False,
) -> Callable[[Sessions], BackendKind]:
    """Return the function that makes a kind. `in_process` is true if the backend is not dialled."""
    if pods is not None:
        return lambda sessions: PodsKind(sessions, make_backend, *pods)
    if upstream.session_ref is not None:
        return lambda sessions: SharedKind(sessions, make_backend)
    if upstream.single_session:
        return lambda sessions: SingleKind(sessions, make_backend)
    if in_process:
        return lambda sessions: ReplayedKind(sessions, make_backend)
    return lambda sessions: ConversationsKind(sessions, make_backend)
