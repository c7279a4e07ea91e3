"""The context that a rule toward smooth gets beside its item: the envelope, and the command that is answered.

The base class serves a single item (`Direction.write`, an answer to one link). The projection of a turn is a subclass.
"""

from __future__ import annotations

from msgspec import UNSET

from dragoman.mappings.canonical import Command, events
from dragoman.mappings.canonical.values import Cause, Ext
from dragoman.mappings.losses import Losses
from dragoman.mappings.smooth.vocabulary import CODE_OF_CAUSE, given
from dragoman.mappings.smooth.wire import events as wire
from dragoman.mappings.smooth.wire.values import NS_PER_MS

Messages = tuple[object, ...]
"""Wire structs, or untyped JSON for a message that is passed on unchanged."""


class Context(Losses):
    """The envelope of the messages that a rule writes.

    `request_id` is the id inside `data`, `top` the one at the top of the frame (None omits it). `timestamp` is in ms.
    `turn` is the UUID of the turn, "" outside of any turn. `asked` is the command that is answered, if any. `alone` is
    True if the item is written without the other items of its turn. `earlier_text` counts the characters of the turn's
    text in earlier runs: a question in words ends a run. `seed` is True if the clients speak the seed generation.
    """

    __slots__ = ("alone", "asked", "earlier_text", "request_id", "seed", "timestamp", "top", "turn")

    def __init__(self, request: str = "", at: int = 0, asked: Command | None = None) -> None:
        super().__init__()
        self.request_id = request
        self.top: str | None = request or None
        self.timestamp = at // NS_PER_MS
        self.turn = ""
        self.asked = asked
        self.earlier_text = 0
        self.seed = False
        self.alone = True

    def hold_error(self, event: events.ErrorReported) -> bool:
        """Hold an error until the end of its turn; return False if it must be written now."""
        return False

    def asks_in_words(self, kind: str) -> bool:
        """Return True if the gateway asks these clients for a form of this kind in words."""
        return False

    def end_run(self, question: events.QuestionAsked | events.QuestionAnswered) -> None:
        """Begin a new run, with another request id, after a question in words."""

    def take_held_errors(self, failure: tuple[Cause, str] | None) -> list[events.ErrorReported]:
        """Remove and return the held errors, without those that repeat the turn's `failure`."""
        return []


def code_of(cause: Cause, ext: Ext | None) -> str:
    """Return the smooth error code of a cause: the server's original code if `ext` has it."""
    return given(ext, "code", str, CODE_OF_CAUSE[cause])


def error_event(
    context: Context, code: str, text: str, ext: Ext | None = None, *, loose: bool = False
) -> wire.ErrorEvent:
    """Return an `error` message; a `loose` one has no requestId and ends no turn (docs/translation.md, rule 3.11)."""
    body = wire.ErrorBody(code=code, message=text)
    request = None if loose else context.top
    return wire.ErrorEvent(
        request_id=request,
        error=body,
        data=wire.ErrorEvent.Data(request_id=request, error=body, details=given(ext, "details", object, UNSET)),
        timestamp=context.timestamp,
    )
