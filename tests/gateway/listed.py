"""Pages of a list, as clients receive them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from dragoman.gateway.link import Link
from dragoman.gateway.routing.router import Router
from dragoman.gateway.routing.session_commands import SessionCommands
from dragoman.mappings.canonical.commands import ListSessions
from dragoman.mappings.canonical.events import SessionsListed
from dragoman.mappings.canonical.values import SessionSummary


def do_at_once(_link: Link, work: Iterator[None]) -> None:
    """Run all slices of a piece of work."""
    for _ in work:
        pass


class UnknownCursor(Exception):  # noqa: N818  # an answer, and no error of ours
    """The answer to an unknown cursor."""


def unexpected(error: Exception) -> None:
    """Raise the error of a page that could not be made."""
    raise error


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
        fail=unexpected,
    )
    lists._sessions.services.queue.budget.left = 1 << 40  # units: the page is made in one slice
    lists._tell_page(link, command, rows)
    (answer,) = answers
    if not isinstance(answer, SessionsListed):
        raise UnknownCursor
    return answer
