"""JSON-RPC 2.0 as the dialects use it: the codes of errors, and the calls of one side that wait for their answers.

The table of calls belongs to whoever asks, client or server.
"""

from __future__ import annotations

from typing import TypeVar

__all__ = ["INVALID_PARAMS", "INVALID_REQUEST", "NO_METHOD", "PARSE_ERROR", "WAITING_MAX", "PendingCalls"]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
NO_METHOD = -32601
INVALID_PARAMS = -32602

WAITING_MAX = 1024  # calls: a peer that answers none of so many answers no further one either

T = TypeVar("T")


class PendingCalls(dict[str, T]):
    """The calls without an answer: our id -> what was asked, in the order of asking."""

    @property
    def full(self) -> bool:
        """Whether no further call may be made before one is answered."""
        return len(self) >= WAITING_MAX

    def drain(self) -> list[T]:
        """Forget all calls and return what was asked."""
        asked = list(self.values())
        self.clear()
        return asked
