"""What a rule toward smooth needs to know beside its item: the envelope, and who asked.

The base class stands for an item said by itself (`Direction.write`, an answer to one link); the projection of a whole
turn refines it.
"""

from __future__ import annotations

from dragoman.mappings.canonical.commands import Command
from dragoman.mappings.canonical.events import ErrorReported, QuestionAnswered, QuestionAsked
from dragoman.mappings.canonical.values import Cause, Ext
from dragoman.mappings.losses import Losses
from dragoman.mappings.rules import RuleTable
from dragoman.mappings.smooth.vocabulary import CODE_OF_CAUSE, given
from dragoman.mappings.smooth.wire import events as wire
from dragoman.mappings.smooth.wire.times import NS_PER_MS

Messages = tuple[object, ...]
"""Wire structs; untyped JSON for a message that is only passed on."""


class Context:
    """The envelope of the messages that a rule makes.

    `request_id` stands in mirrors, `top` at the top of the frame: None where it is omitted. `timestamp` is in ms.
    `turn` is the UUID of the turn, "" outside of any. `asked` is the command that is being answered, if one is.
    `own` says that the link which sees this began the turn, `alone` that an item is said by itself: else the turn's
    other items bring what belongs to it. `told` counts the characters of the turn's text that earlier runs of it said:
    a question in words ends a run. `seed` says that the clients are of that generation.
    """

    __slots__ = ("alone", "asked", "losses", "own", "request_id", "seed", "timestamp", "told", "top", "turn")

    def __init__(self, rules: RuleTable, request: str = "", at: int = 0, asked: Command | None = None) -> None:
        self.request_id = request
        self.top: str | None = request or None
        self.timestamp = at // NS_PER_MS
        self.turn = ""
        self.asked = asked
        self.told = 0
        self.seed = False
        self.alone = True
        self.own = True
        self.losses = Losses(rules)

    def lose(self, source: object, field: str = "", why: str = "") -> None:
        """Count that `source`, or a field of it, does not arrive."""
        self.losses.lose(source, field, why)

    def hold(self, event: ErrorReported) -> bool:
        """Whether this error waits for the end of its turn."""
        return False

    def asks_in_words(self, kind: str) -> bool:
        """Whether these clients are asked such a form in words."""
        return False

    def run_ended(self, question: QuestionAsked | QuestionAnswered) -> None:
        """A question in words ended the run: what comes next is not under its id."""

    def held(self, failure: tuple[Cause, str] | None) -> list[ErrorReported]:
        """The errors that waited, without those that are the turn's `failure` itself."""
        return []


def code_of(cause: Cause, ext: Ext | None) -> str:
    """The code of a cause: the original one where ext carries it."""
    code = given(ext, "code")
    return code if isinstance(code, str) else CODE_OF_CAUSE[cause]


def error_event(
    context: Context, code: str, text: str, ext: Ext | None = None, *, loose: bool = False
) -> wire.ErrorEvent:
    """An `error` for the context's request, or a `loose` one that ends no turn (docs/translation.md, rule 3.11)."""
    body = wire.ErrorBody(code=code, message=text)
    request = None if loose else context.top
    return wire.ErrorEvent(
        request_id=request,
        error=body,
        data=wire.ErrorData(request_id=request, error=body, details=given(ext, "details")),
        timestamp=context.timestamp,
    )
