"""The title of a session is kept by its backend, or by the gateway if the backend has no rename.

A client that attaches learns the title from its dialect's own answer. A client that only makes calls gets the row of
the session, unless a backend of its own dialect has answered it with a row.
"""

from __future__ import annotations

from msgspec import structs

from dragoman.gateway.session.context import SessionContext
from dragoman.gateway.session.in_flight import PendingCommand
from dragoman.gateway.session.ports import Client
from dragoman.mappings.canonical.commands import RenameSession
from dragoman.mappings.canonical.events import Reply, SessionUpdated
from dragoman.mappings.canonical.values import Failure


def are_kept_here(context: SessionContext) -> bool:
    """Return True if the backend has no rename."""
    return not context.upstream.commands.can_write_type(RenameSession)


def rename(context: SessionContext, client: Client, command: RenameSession) -> None:
    _set_title(context, command.title)
    if client.attaches:
        client.send([Reply(request=command.request)])
    else:
        client.attach(context.state, command.request)


def note_renamed(context: SessionContext, command: RenameSession) -> None:
    """Send all clients the new title after a rename that succeeded, unless they know it."""
    if context.state.title != command.title:
        _set_title(context, command.title)


def _set_title(context: SessionContext, title: str) -> None:
    context.state.title = title
    row = structs.replace(context.effects.summary(), title=title, updated_at=context.services.clock())
    context.effects.deliver_event(SessionUpdated(session=row))


def answer_with_row(
    context: SessionContext, pending: PendingCommand, command: RenameSession, failure: Failure | None
) -> bool:
    """Answer a rename with the row of the session; return False if its client waits for a reply instead."""
    client = pending.client
    if client is None or client.attaches or (failure is not None and failure.cause != "unsupported"):
        return False
    if failure is None and context.upstream.name == client.dialect.name:
        return False
    note_renamed(context, command)
    client.attach(context.state, command.request)
    return True


def find_failure(context: SessionContext, pending: PendingCommand, failure: Failure | None) -> Failure | None:
    """Return the failure of a rename; None if the gateway keeps the title, because the backend has no rename.

    A client of the backend's own dialect always gets the backend's refusal.
    """
    client = pending.client
    if failure is None or client is None or client.dialect.name == context.upstream.name:
        return failure
    return None if failure.cause == "unsupported" else failure
