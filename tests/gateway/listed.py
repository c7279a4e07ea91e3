"""Pages of a list, as clients receive them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from dragoman.gateway.routing.router import Router
from dragoman.gateway.routing.session_commands import SessionCommands
from dragoman.mappings.canonical.commands import ListSessions
from dragoman.mappings.canonical.events import SessionsListed
from dragoman.mappings.canonical.values import SessionSummary


class UnknownCursor(Exception):  # noqa: N818  # an answer, and no error of ours
    """The answer to an unknown cursor."""


def listed(router: Router, command: ListSessions, *rows: Sequence[SessionSummary], **options: Any) -> SessionsListed:
    """Return a page of the list of a route; see `page_of`."""
    return page_of(router._commands, command, *rows, **options)


def page_of(
    lists: SessionCommands,
    command: ListSessions,
    rows: Sequence[SessionSummary] = (),
    *,
    silent: bool = False,
    principal: str = "local",
) -> SessionsListed:
    """Return a page of `lists` whose backend has listed `rows`; raise UnknownCursor for an unknown cursor."""
    answers: list[Any] = []
    link: Any = SimpleNamespace(
        id="lists",
        principal=principal,
        dialect=SimpleNamespace(lists_silent=silent),
        send=answers.extend,
        refuse=lambda *refusal: answers.append(refusal),
        add_work=deque(maxlen=0).extend,  # it does all slices at once
    )
    lists._send_page(link, command, rows)
    (answer,) = answers
    if not isinstance(answer, SessionsListed):
        raise UnknownCursor
    return answer
