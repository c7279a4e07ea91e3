"""The bearer tokens of clients that a route passes on to its backend (`upstream_auth = "forward"`).

Each connection to the backend belongs to one session, and presents the token that the owner of the session presented
last. So a renewed token is used when the connection is made again. Tokens are kept in memory alone, and no log line,
error or recording has one.
"""

from __future__ import annotations

from contextvars import ContextVar

from dragoman.mappings.bounded import remember

FORWARDED: ContextVar[str] = ContextVar("FORWARDED", default="")
"""The token of the client for whose session the current task connects to a backend; "" without such a route."""


class ForwardedTokens:
    """The latest token of each principal of a route."""

    def __init__(self) -> None:
        self._tokens: dict[tuple[str, str], str] = {}  # the latest one at the end

    def remember(self, route: str, principal: str, token: str, most: int) -> None:
        """Keep the token that a client of a route has presented, and at most `most` tokens in all."""
        remember(self._tokens, (route, principal), token, most)

    def find_token(self, route: str, principal: str) -> str:
        return self._tokens.get((route, principal), "")
