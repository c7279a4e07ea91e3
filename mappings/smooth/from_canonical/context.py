"""The context that a rule toward smooth gets beside its item: the envelope, and the command that is answered.

The base class serves a single item (`Direction.write`, an answer to one link). The projection of a turn is a subclass.
"""

from __future__ import annotations

from msgspec import UNSET

from dragoman.mappings.canonical import Command, events
from dragoman.mappings.canonical.values import Cause, Ext
from dragoman.mappings.losses import Losses
from dragoman.mappings.smooth.vocabulary import CODE_OF_CAUSE, SEED, given
from dragoman.mappings.smooth.wire import events as wire
from dragoman.mappings.smooth.wire.values import NS_PER_MS

Messages = tuple[object, ...]
"""Wire structs, or untyped JSON for a message that is passed on unchanged."""


HELD_MAX = 64
"""Errors held until the end of a turn; further ones are counted as losses."""


class Context(Losses):
    """The envelope of the messages that a rule writes.

    `request_id` is the id inside `data`, `envelope_id` the one beside it (None omits it). `timestamp` is in ms.
    `turn` is the UUID of the turn, "" outside of any turn. `asked` is the command that is answered, if any. `alone` is
    True if the item is written without the other items of its turn. `earlier_text` counts the characters of the turn's
    text in earlier runs: a question in words ends a run. `view` names the forms that clients are asked in words, and
    the seed generation if they speak it; then `seed` is True.
    """

    __slots__ = (
        *("alone", "asked", "earlier_text", "envelope_id", "held", "request", "request_id"),
        *("runs", "seed", "timestamp", "turn", "view"),
    )

    def __init__(self, request: str = "", at: int = 0, asked: Command | None = None, view: str = "") -> None:
        super().__init__()
        self.request_id = request
        self.envelope_id: str | None = request or None
        self.timestamp = at // NS_PER_MS
        self.turn = ""
        self.asked = asked
        self.earlier_text = 0
        self.alone = True
        self.view = view
        self.seed = SEED in view.split()
        self.request = ""  # the request id of the link's own turn
        self.runs = 0  # the number of runs of this turn that ended with a question in words
        self.held: tuple[events.ErrorReported, ...] = ()

    def hold_error(self, event: events.ErrorReported) -> bool:
        """Hold an error until its turn has ended and return True; return False outside of a turn."""
        if not self.turn:
            return False
        if len(self.held) < HELD_MAX:
            self.held += (event,)
        else:
            self.lose(event, why=f"more than {HELD_MAX} errors in one turn")
        return True

    def take_held_errors(self, failure: tuple[Cause, str] | None) -> list[events.ErrorReported]:
        """Remove and return the held errors, without those that repeat the turn's `failure`."""
        waited, self.held = self.held, ()
        return [event for event in waited if (event.cause, event.text) != failure]

    def asks_in_words(self, kind: str) -> bool:
        """Return True if the gateway asks these clients for a form of this kind in words."""
        return bool(kind) and kind in self.view.split()

    def end_run(self, question: events.QuestionAsked | events.QuestionAnswered) -> None:
        """Begin a new run after a question in words, with another request id and without the text so far."""
        self.request, self.earlier_text, self.runs = "", len(question.before), question.number


def code_of(cause: Cause, ext: Ext | None) -> str:
    """Return the smooth error code of a cause: the server's original code if `ext` has it."""
    return given(ext, "code", str, CODE_OF_CAUSE[cause])


def error_event(
    context: Context, code: str, text: str, ext: Ext | None = None, *, loose: bool = False
) -> wire.ErrorEvent:
    """Return an `error` message; a `loose` one has no requestId and ends no turn (docs/translation.md, rule 3.11)."""
    body = wire.ErrorBody(code=code, message=text)
    request = None if loose else context.envelope_id
    return wire.ErrorEvent(
        request_id=request,
        error=body,
        data=wire.ErrorEvent.Data(request_id=request, error=body, details=given(ext, "details", object, UNSET)),
        timestamp=context.timestamp,
    )
