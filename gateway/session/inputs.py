"""The inputs of users, one at a time: each begins a new turn or answers a question.

refused    it is empty, a turn is in progress, or the connection is lost
waiting    it was written, and its turn has not begun
accepted   the backend has accepted it, so its turn begins
late       it was not accepted in time and its client was told; the backend may still accept it
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec import structs

from dragoman.gateway.session.context import SessionContext
from dragoman.gateway.session.in_flight import PendingCommand
from dragoman.gateway.session.ports import Client
from dragoman.gateway.session.questions import Questions
from dragoman.gateway.session.turn_states import TurnState
from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.commands import SubmitInput
from dragoman.mappings.canonical.events import TurnAccepted
from dragoman.mappings.canonical.values import (
    FileAttachment,
    FileRef,
    ImageAttachment,
    Message,
    Origin,
    Segment,
    flatten,
    why_empty,
)
from dragoman.mappings.dialect import Loss

BUSY = "the connection to the backend was lost and is being made again; try again"


class Inputs:
    """The inputs of one session."""

    __slots__ = ("_caller", "_context", "_late", "_questions")

    def __init__(self, context: SessionContext, questions: Questions) -> None:
        self._context = context
        self._questions = questions
        self._caller = ""  # id of the client whose input was written last, if it only makes calls
        self._late: tuple[str, SubmitInput] | None = None  # the last input that was not accepted in time

    def submit(self, client: Client, command: SubmitInput) -> None:
        """Handle an input of a client: it answers the open question, begins a turn, or is refused."""
        states = self._context.states
        same_dialect = client.dialect.name == self._context.upstream.name  # which may have a field for attachments
        segments = command.segments if same_dialect else as_references(command.segments, self._context.route.file_roots)
        command = structs.replace(command, segments=segments)
        if not flatten(segments).strip() and _ATTACHED.isdisjoint(map(type, segments)):
            client.refuse(command.request, "invalid", why_empty(segments))
        elif states.severed:
            client.refuse(command.request, "busy", BUSY)
        elif self._questions.take_typed(client, command):
            return
        elif states.turn is TurnState.DISCARDED:
            text = "the cancelled turn has not ended in the backend yet; try again"
            client.refuse(command.request, "busy", text)
        elif self._context.is_busy:
            client.refuse(command.request, "busy", "a turn is already in progress in this session")
        elif self._context.services.stop.is_set():
            client.refuse(command.request, "upstream_lost", "the gateway stops, and begins no further turn")
        else:
            self._caller = "" if client.attaches else client.id
            self._context.in_flight.forward(client, command)

    @property
    def waiting_input(self) -> SubmitInput | None:
        """The input that was written and is not accepted yet."""
        pending = self._context.in_flight.find_command(self._context.in_flight.input)
        return pending.command if pending is not None and isinstance(pending.command, SubmitInput) else None

    @property
    def of_caller(self) -> bool:
        """True for the turn, or waiting input, of a client that only makes calls, and whose leaving is not noticed."""
        turn = self._context.state.turn
        return bool(self._caller) and (turn is None or turn.origin.link == self._caller)

    @property
    def runs(self) -> bool:
        """True while a turn runs here; a resumed run may have sent nothing yet."""
        return self._context.is_busy or self._context.state.status == "running"

    def may_cancel(self, client: Client) -> bool:
        """Return True if this client may cancel the turn that may be running.

        Clients of some dialects cancel only their own turns, turns of clients that have left, and a turn that was found
        running at the backend. An answer of another client does not change to whom a turn belongs.
        """
        if not client.dialect.cancels_own_turns or not self.runs:
            return True
        context, turn = self._context, self._context.state.turn
        owner = turn.origin.link if turn is not None else ""
        pending = context.in_flight.find_command(context.in_flight.input)
        if pending is not None and pending.client is not None:
            owner = pending.client.id
        if not owner:
            return context.state.found_running is not None
        attachments = context.delivery.attachments
        own = attachments.get(client.id)
        began = own is not None and own.behind is None and own.request != ""
        return began or owner == client.id or owner not in attachments

    def accept(self, pending: PendingCommand, at: int) -> None:
        command, client = pending.command, pending.client
        if not isinstance(command, SubmitInput) or client is None:
            return
        self._begin_turn(Origin(link=client.id, request=command.request), command, at)
        if not client.attaches:
            client.send([TurnAccepted(request=command.request)])

    def _begin_turn(self, origin: Origin, command: SubmitInput, at: int) -> None:
        message = Message(role="user", text=flatten(command.segments), segments=command.segments)
        self._context.effects.deliver(self._context.form.accept(origin, message, at), at)

    # -- late inputs -----------------------------------------------------------------------------------

    def remember_late(self, request: str, command: SubmitInput) -> None:
        """Remember an input that was not accepted in time, because the backend may still accept it."""
        self._late = request, command

    def take_unmatched(self, event: Event, at: int) -> None:
        """Handle an answer for which no command waits: begin the turn of a late input, or count a loss."""
        if isinstance(event, TurnAccepted) and self._late is not None and event.request == self._late[0]:
            (_, command), self._late = self._late, None
            self._begin_turn(Origin(), command, at)
        else:
            loss = Loss(kind=type(event).__name__, why="answers no command of ours")
            self._context.count_losses([loss])

    def match_repeated(self, event: TurnAccepted) -> TurnAccepted:
        """Return the acceptance of a late input as that of the waiting one, if a user has sent the same text again."""
        if self._late is None or (waiting := self.waiting_input) is None:
            return event
        request, command = self._late
        same = event.request == request and waiting.segments == command.segments
        return structs.replace(event, request=self._context.in_flight.input) if same else event


# -- attached files ---------------------------------------------------------------------------------------


_ATTACHED = frozenset((ImageAttachment, FileAttachment))

# Characters of the paths of one input that are resolved: a call of the system for each component, 20 ms for `/a/../`.
PATHS_MAX = 32 * 1024


def as_references(segments: Sequence[Segment], roots: Sequence[str]) -> tuple[Segment, ...]:
    """Return the segments with references in place of attachments inside `roots` (docs/translation.md, rule 3.10).

    No request can name a file outside of the route's `file_roots` (docs/design.md, section 6): a path counts as it
    resolves, with all links followed.
    """
    if not roots or _ATTACHED.isdisjoint(map(type, segments)):
        return tuple(segments)
    resolved = [Path(os.path.realpath(root)) for root in roots]
    shown, room = list[Segment](), PATHS_MAX
    for segment in segments:
        path = None
        if isinstance(segment, ImageAttachment | FileAttachment) and segment.url[:5].lower().startswith(("/", "file:")):
            room -= len(segment.url)
            path = _path(segment.url) if room >= 0 else None
        inside = path is not None and any(path.is_relative_to(root) for root in resolved)
        shown.append(FileRef(path=str(path)) if inside else segment)
    return tuple(shown)


def _path(url: str) -> Path | None:
    """Return the existing file that a `file://` URL or an absolute path names."""
    try:
        parts = urlsplit(url)
        named = unquote(parts.path) if parts.scheme == "file" and parts.netloc in ("", "localhost") else url
        return Path(os.path.realpath(named, strict=True)) if os.path.isabs(named) else None
    except (OSError, ValueError):
        return None
