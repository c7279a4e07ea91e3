"""Compare a client's command with recorded commands, in three levels of similarity.

    exact   equal except for request, session and `ext`, which no other client can repeat
    same    equal after removing ids, times and white space; redacted text matches anything
    near    the same kind, and only texts differ slightly

A command matches on the highest level that any candidate reaches, and there the first candidate. The cost of `near` is
quadratic in the length, so only some candidates and the beginnings of their texts are compared.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct

from dragoman.mappings.canonical import Command, commands
from dragoman.mappings.canonical.values import flatten

MatchLevel = Literal["exact", "same", "near", "other"]

NEAR = 0.8  # ratio: allows one word or a few typing errors in a sentence; "yes" and "yet" differ
TEXT_MAX = 400  # characters compared for `near`: about ten milliseconds at worst
TRIED_MAX = 8  # candidates compared for `near`, the most similar by a cheap estimate
SAMPLE = 80  # characters of a differing field in a report

NOT_COMPARED = frozenset({"request", "session", "ext"})
OF_THE_QUESTION = frozenset({"question", "kind"})  # some clients leave these out; plan.py knows the open question
ANSWERS = (commands.AnswerApproval, commands.AnswerInteraction)

_UUID = re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b")
_DAY, _CLOCK, _ZONE = r"\d{4}-\d{2}-\d{2}", r"\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?", r"(?:Z|[+-]\d{2}:?\d{2})?"
_TIME = re.compile(rf"\b{_DAY}(?:[T ]{_CLOCK}{_ZONE})?(?!\w)|\b\d{{10,19}}\b")  # the latter: since the epoch
_REDACTED = re.compile(r"\[redacted:[^\]\s]*\]")


class FieldDifference(Struct, frozen=True, kw_only=True):
    """A field in which two commands differ: the recorded and the new text, both shortened."""

    field: str
    recorded: str
    new: str


class Likeness(Struct, frozen=True, kw_only=True):
    """The similarity of two commands: the level, the ratio (1.0 is equal), and the differences."""

    level: MatchLevel
    ratio: float
    differences: tuple[FieldDifference, ...] = ()


def compare_commands(recorded: Command, new: Command, *, ratio: bool = True) -> Likeness:
    """Compare `new` with a recorded command; without `ratio` the level `near` is not computed."""
    if type(recorded) is not type(new):
        return Likeness(level="other", ratio=0.0)
    one, other = _fields(recorded), _fields(new)
    if one.get("values", "") is None and not one["declined"]:
        one["values"] = other["values"]  # values typed in words are not recorded
    unlike = [name for name in one if one[name] != other[name]]
    if not unlike:
        return Likeness(level="exact", ratio=1.0)
    differing = [name for name in unlike if not _same(one[name], other[name])]
    told = tuple(
        FieldDifference(field=name, recorded=_sample(one[name]), new=_sample(other[name]))
        for name in differing or unlike
    )
    if not differing:
        return Likeness(level="same", ratio=1.0, differences=told)
    near = min(_ratio(one[name], other[name]) for name in differing) if ratio else 0.0
    return Likeness(level="near" if near >= NEAR else "other", ratio=near, differences=told)


def is_same_command(recorded: Command, new: Command) -> bool:
    """Return True if `new` equals the recorded command except for ids, times and white space."""
    return compare_commands(recorded, new, ratio=False).level in ("exact", "same")


def nearest_commands(recorded: Sequence[Command], new: Command) -> list[tuple[int, Likeness]]:
    """Return the recorded commands most similar to `new`, best first, as index and likeness, at most TRIED_MAX.

    Among equal ones the earlier comes first. Only the first can be above the level `near`.
    """
    found = [(place, compare_commands(command, new, ratio=False)) for place, command in enumerate(recorded)]
    for level in ("exact", "same"):
        first = next((pair for pair in found if pair[1].level == level), None)
        if first is not None:
            return [first]
    kin = [place for place, command in enumerate(recorded) if type(command) is type(new)]
    kin.sort(key=lambda place: -_glance(recorded[place], new))
    tried = [(place, compare_commands(recorded[place], new)) for place in kin[:TRIED_MAX]]
    return sorted(tried, key=lambda pair: (-pair[1].ratio, pair[0]))


def _fields(command: Command) -> dict[str, Any]:
    """Return the compared fields of a command; the segments of an input become one text."""
    fields: dict[str, Any] = {}
    for name in command.__struct_fields__:
        value = getattr(command, name)
        if name in NOT_COMPARED or (name in OF_THE_QUESTION and isinstance(command, ANSWERS)):
            continue
        if name == "segments":
            attached = [msgspec.to_builtins(s) for s in value if not flatten((s,))]
            fields["text"], fields["attached"] = flatten(value), attached
        else:
            fields[name] = msgspec.json.decode(value) if isinstance(value, Raw) else None if value is UNSET else value
    return fields


def _same(recorded: Any, new: Any) -> bool:
    """Return True if two values are equal except for ids, times, white space and redacted parts."""
    if isinstance(recorded, str) and isinstance(new, str):
        return _fits(_plain(recorded), _plain(new))
    if isinstance(recorded, dict) and isinstance(new, dict):
        return recorded.keys() == new.keys() and all(_same(value, new[key]) for key, value in recorded.items())
    if isinstance(recorded, list | tuple) and isinstance(new, list | tuple):
        return len(recorded) == len(new) and all(map(_same, recorded, new))
    return bool(recorded == new)


def _plain(text: str) -> str:
    text = _TIME.sub("<time>", _UUID.sub("<id>", text))
    return " ".join(text.split())


def _fits(recorded: str, new: str) -> bool:
    """Return True if a text equals the recorded one, where redacted parts match any text."""
    first, *rest = _REDACTED.split(recorded)
    if not rest:
        return recorded == new
    if not new.startswith(first):
        return False
    at = len(first)
    for piece in rest[:-1]:
        found = new.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return new.endswith(rest[-1]) and len(new) - len(rest[-1]) >= at


def _ratio(recorded: Any, new: Any) -> float:
    if not isinstance(recorded, str) or not isinstance(new, str):
        return 0.0
    one, other = (_plain(text[: 4 * TEXT_MAX])[:TEXT_MAX] for text in (recorded, new))
    if not one or not other:
        return 0.0
    return SequenceMatcher(None, one, other, autojunk=False).ratio()


def _glance(recorded: Command, new: Command) -> float:
    """Return a cheap upper bound of the ratio of two commands."""
    one, other = _fields(recorded), _fields(new)
    texts = [
        SequenceMatcher(None, one[name][:TEXT_MAX], other[name][:TEXT_MAX], autojunk=False).quick_ratio()
        for name in one
        if one[name] != other[name] and isinstance(one[name], str) and isinstance(other[name], str)
    ]
    return min(texts, default=0.0)


def _sample(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= SAMPLE else f"{text[: SAMPLE - 1]}…"
