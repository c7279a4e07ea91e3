"""The context that a rule toward codewhale gets beside its item: the request to answer, and the open response.

A Context serves a single item (`Direction.write`, an answer to one link). The projection of a session is a subclass.
Rules return lines, answers, and EventFrames, which `bundled` puts into the result that follows them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.values import ANSWERED
from dragoman.mappings.codewhale.ids import answer_id
from dragoman.mappings.codewhale.vocabulary import HEAD, SEED
from dragoman.mappings.codewhale.wire import results
from dragoman.mappings.codewhale.wire.codecs import EVENTS, decoder_of
from dragoman.mappings.codewhale.wire.frames import EventFrame, FrameBase
from dragoman.mappings.losses import Losses

Messages = tuple[object, ...]
"""Wire structs: lines, answers, EventFrames."""


class Context(Losses):
    """The facts that rules toward codewhale need beside their item.

    `request` is the request id of an answer. `asked` is the command that it answers, None if it is unknown. `at` is in
    ns. `generation` is the peer's. `alone` is True if the item is written without the others of its session. `started`
    and `ended` tell if the open response has its first and its last line.
    """

    alone = True

    def __init__(
        self,
        *,
        at: int = 0,
        request: str = "",
        asked: Command | None = None,
        generation: str = HEAD,
    ) -> None:
        super().__init__()
        self.at = at
        self.request = request
        self.asked = asked
        self.generation = generation
        self.session = ""
        self.thread = ""
        self.turn = ""
        self.response_id = ""
        self.started = self.ended = False

    def answer(self, result: object, request: str = "") -> results.Answer:
        """Return an answer with this result, to the context's request or else to `request`."""
        return results.Answer(id=answer_id(self.request or request), result=result)

    def refusal(self, problem: results.Problem, request: str = "") -> results.Answer:
        """Return an answer with this error, to the context's request or else to `request`."""
        return results.Answer(id=answer_id(self.request or request), error=problem)

    def starts(self) -> bool:
        """Return True if `response_start` must be written: always in `translate`, else once a run."""
        first, self.started = self.alone or not self.started, True
        return first

    def ends(self, end: str) -> bool:
        """Return True if `response_end` must be written: always in `translate`, else if it started or succeeded."""
        is_sent = self.alone or (not self.ended and (self.started or end in ANSWERED))
        self.ended = True
        return is_sent

    @property
    def streams(self) -> bool:
        """True if text is streamed as bare lines; clients of the seed generation get text only in the result."""
        return self.alone or self.generation != SEED

    def original(self, event: Any) -> Any:
        """Return the EventFrame from which `event` was read, in `translate`; else None."""
        ext = getattr(event, "ext", None)
        if not self.alone or ext is None or "codewhale.frame" not in ext:
            return None
        try:
            return decoder_of(EventFrame).decode(ext["codewhale.frame"])
        except msgspec.DecodeError:
            return None


def bundled(messages: Iterable[Any]) -> list[bytes]:
    """Return messages as lines; EventFrames go into the result that follows them, or into an extra result."""
    out: list[bytes] = []
    held: list[Any] = []
    for message in messages:
        if isinstance(message, FrameBase):
            held.append(message)
            continue
        if held and isinstance(message, results.Answer):
            message, held = _holding(message, held)  # noqa: PLW2901  # the same answer, with the EventFrames inside
        out.append(EVENTS.encode(message))
    if held:
        own = results.AppResponse(ok=True, data=results.EMPTY, events=tuple(held))
        out.append(EVENTS.encode(results.Answer(result=own)))
    return out


def _holding(answer: results.Answer, held: list[Any]) -> tuple[results.Answer, list[Any]]:
    result = answer.result
    if not isinstance(result, results.ThreadResponse | results.AppResponse):
        return answer, held
    if result.events:  # the result already contains these frames
        return answer, []
    return replace(answer, result=replace(result, events=tuple(held))), []
