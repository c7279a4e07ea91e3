"""Counts of content that a dialect could not express, by kind, field and reason, with a sample.

Rules report a loss with `context.lose(...)`; the writer takes all losses once a batch. Rows and samples are bounded, so
nothing that a peer sends makes the counts grow. The rules of commands need no other context: the `write` of a
`command_direction` calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Raw, json, structs

from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.values import Ext, has_references
from dragoman.mappings.codec import Format
from dragoman.mappings.dialect import Burst, Direction, LineForm, Loss, Parts, Rendered
from dragoman.mappings.extras import read_raw
from dragoman.mappings.rules import Lossy, Rules

SAMPLE_MAX = 200  # characters; enough to recognise a message, too few to carry a document
ROWS_MAX = 256  # kinds times fields times reasons; types are few, so this is only reached by a bug

NOT_IN_A_MESSAGE_LIST = (
    *("items.turn", "items.segments", "items.reasoning", "items.tool_call", "items.tool_result"),
    *("status", "backend", "rotated", "runs", "conversation", "compacted", "summed_up"),
)
"""Fields of a HistorySnapshot that are lost in dialects whose history is a list of messages."""

CLIENT_DETAILS = ("agent", "user_name", "user_email", "supports", "metadata")
"""Fields of an OpenSession or ResumeSession that only smooth has."""

TEXT_INPUT = Lossy(
    ("segments", "model"),
    lost_by=lambda item: ("segments", "model") if has_references(item.segments) else ("model",),
)
"""The fidelity of an input whose references and pastes become one text. Its attachments are sent, or it is refused."""

EMPTY: tuple[object, ...] = (None, "", [])
NULL = Raw(b"null")

OTHER = Loss(kind="other", why="more kinds of losses than are counted separately", count=0)


def sample_text(sample: object) -> str:
    """Return the beginning of a lost value as JSON, or of a text."""
    text = sample if isinstance(sample, str) else json.encode(sample)[: 4 * SAMPLE_MAX].decode(errors="ignore")
    return text[:SAMPLE_MAX]


class Losses:
    """The losses of one writer: the base of each dialect's Context."""

    __slots__ = ("lost",)

    def __init__(self) -> None:
        self.lost: dict[tuple[str, str, str], Loss] = {}
        """Losses since the last `take_losses`; a writer on the hot path checks this first."""

    def lose(self, source: object, field: str = "", why: str = "") -> None:
        """Count that `source`, or one of its fields, is lost; `why` is the reason."""
        key = (type(source).__name__, field, why)
        known = self.lost.get(key)
        if known is None and len(self.lost) >= ROWS_MAX:
            key = (OTHER.kind, OTHER.field, OTHER.why)
            known = self.lost.get(key, OTHER)
        if known is None:
            known = Loss(kind=key[0], field=key[1], why=key[2], sample=source, count=0)
        self.lost[key] = structs.replace(known, count=known.count + 1)

    def take_losses(self) -> list[Loss]:
        """Remove and return the losses since the last call."""
        losses = list(self.lost.values())
        self.lost.clear()
        return losses


def find_ext(ext: Ext, dialect: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return each of these fields of a dialect that `ext` has, as `ext.NAME`; an empty member counts as missing."""
    found = []
    for name in names:
        field, _, member = name.partition(".")
        value = ext.get(f"{dialect}.{field}")
        if member:
            members = read_raw(value, dict[str, object]) or {}
            has_content = members.get(member) not in EMPTY
        else:
            has_content = value is not None and value != NULL
        if has_content:
            found.append(f"ext.{name}")
    return tuple(found)


def command_direction(
    codec: Format,
    to_canonical: Rules[[], Command],
    from_canonical: Rules[[Losses], Any],
    unwrap: Callable[[Parts], bytes] | None = None,
    lines: LineForm | None = None,
) -> Direction[Command]:
    """Return a direction of commands, each of which is written by itself, under its own request id."""

    def write(burst: Burst[Command]) -> Rendered:
        losses = Losses()
        functions = from_canonical.functions
        frames = [codec.encode(message) for item in burst.items for message in functions[type(item)](item, losses)]
        return Rendered(frames=frames, losses=losses.take_losses())

    return Direction(
        codec=codec,
        to_canonical=to_canonical,
        from_canonical=from_canonical,
        write=write,
        unwrap=unwrap,
        lines=lines,
    )
