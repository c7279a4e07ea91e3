"""`dragoman translate`: one stream in one direction as a filter, through the sessions and projections of live traffic.

To the same dialect each line stands alone and nothing is added. Between two dialects the events go through the normal
form of a turn. Ids that the input does not bring are counted up from zero, times come from the input or are 0: equal
input, equal output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from uuid import UUID

from msgspec import Struct

from gateway.answers import answers_one
from gateway.turn import NormalForm
from mappings.canonical import Batch, SessionState, Unmapped
from mappings.dialect import Burst, Dialect, Direction, Frame, Loss, Rendered, Step

__all__ = ["Report", "translate"]


class Report(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What did not go through, as one JSON line: a bad line, or a loss. `line` counts from 1."""

    line: int
    error: str = ""
    text: str = ""
    loss: Loss | None = None


Out = Callable[[bytes], None]
Said = Callable[[Report], None]


def translate(
    source: Dialect, target: Dialect, lines: Iterable[tuple[int, Frame]], *, commands: bool, out: Out, said: Said
) -> bool:
    """Translate numbered `lines`; frames go to `out`, reports to `said`. Returns whether every line was good."""
    reading = source.commands if commands else source.events
    writing = target.commands if commands else target.events
    alone = source.name == target.name or commands
    stream = None if alone else _Stream(target)
    good = True
    for number, frame in lines:
        step = Step()
        reading.receive([frame], step)
        for fault in step.faults:
            said(Report(line=number, error=fault.code, text=fault.text))
        unknown = [item for burst in step.bursts for item in burst.items if isinstance(item, Unmapped)]
        for item in unknown:
            said(Report(line=number, error="unknown", text=f"unknown {source.name} message {item.tag!r}"))
        good = good and not step.faults and not unknown
        if unknown and ((alone and source.name != target.name) or not _survives(writing, unknown[0])):
            continue
        losses = step.losses
        for burst in step.bursts:
            for rendered in stream.render(burst) if stream is not None else [writing.write(burst)]:
                losses = losses + rendered.losses
                for output in rendered.frames:
                    out(output)
        for loss in losses:
            said(Report(line=number, loss=loss))
    return good


def _survives(writing: Direction, item: Unmapped) -> bool:
    """Whether the target has a rule that writes unknown messages back: its sheet says that clients survive them."""
    entry = writing.from_canonical.entries.get(type(item))
    return entry is not None and bool(entry.produces)


class _Stream:
    """One session that nobody serves: bursts in, what its clients would be shown out."""

    def __init__(self, target: Dialect) -> None:
        numbers = count()

        def new_id() -> str:
            return str(UUID(int=next(numbers)))

        self._state = SessionState(id=new_id())
        self._form = NormalForm(self._state, new_id)
        self._projection = target.projection("", "")
        self._writing = target.events

    def render(self, burst: Burst) -> Iterator[Rendered]:
        for item in burst.items:
            if answers_one(item):  # addressed to one link that asked: it stands alone
                yield self._writing.write(Burst(items=[item], request=burst.request, at=burst.at))
                continue
            for run in self._form.feed([item], burst.at):
                yield self._projection.render(
                    Batch(
                        session=self._state.id, epoch=1, first_seq=self._state.seq, events=run.events, turn=run.turn,
                        origin=run.origin, at=burst.at,
                    )
                )  # fmt: skip
                self._state.seq += len(run.events)
