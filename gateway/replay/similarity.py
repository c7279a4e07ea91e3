"""The similarity of two commands: one of a client, and a recorded one. It has three levels:

    exact   equal except for request, session and `ext`, which no other client can repeat
    same    equal after removing ids, times and white space; redacted text matches anything
    near    the same kind, and only texts differ slightly

A client's command is compared with all recorded ones in one step of the event loop. So a ComparedCommand has everything
that can be computed for one command alone. The ratio of two texts is the share of characters that both have in the same
order. Only some candidates and the beginnings of their texts are compared for it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct

from dragoman.mappings.canonical import Command, commands
from dragoman.mappings.canonical.values import flatten
from dragoman.mappings.codec import read_json
from dragoman.mappings.errors import PeerError

MatchLevel = Literal["exact", "same", "near", "other"]

NEAR = 0.8  # ratio: allows one word or a few typing errors in a sentence; "yes" and "yet" differ
TEXT_MAX = 400  # characters compared for `near`: 0.1 ms
ESTIMATED_MAX = 1_000  # candidates whose ratio is estimated: 5 ms
TRIED_MAX = 8  # candidates compared for `near`, the most similar by that estimate
DEPTH_MAX = 100  # levels of a JSON value whose members are compared: `_plain` calls itself for each
FIELD_SAMPLE = 80  # characters of a differing field in a report

NOT_COMPARED = frozenset({"request", "session", "ext"})
OF_THE_QUESTION = frozenset({"question", "kind"})  # some clients leave these out; plan.py knows the open question

_UUID = re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b")
_CLOCK, _ZONE = r"\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?", r"(?:Z|[+-]\d{2}:?\d{2})?"
_DAY, _SINCE_THE_EPOCH = rf"\d{{3}}-\d{{2}}-\d{{2}}(?:[T ]{_CLOCK}{_ZONE})?(?!\w)", r"\d{9,18}\b"
_TIME = re.compile(rf"\d(?<!\w\d)(?:{_DAY}|{_SINCE_THE_EPOCH})")  # begins with a digit, which `re` searches in C
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


class ComparedCommand:
    """A command, prepared to be compared with many others.

    `fields` are its compared fields; `plain` are these without ids, times and white space. `letters` counts the
    characters at the beginning of each plain text. `is_redacted` is True if a part of a text was redacted.
    """

    __slots__ = ("command", "fields", "is_redacted", "letters", "plain")

    def __init__(self, command: Command) -> None:
        self.command = command
        self.fields = _fields(command)
        self.plain = {name: _plain(value) for name, value in self.fields.items()}
        self.is_redacted = b"[redacted:" in msgspec.json.encode(self.plain)
        texts = {name: text[:TEXT_MAX] for name, text in self.plain.items() if isinstance(text, str)}
        self.letters = {name: Counter(text) for name, text in texts.items()}


def compare_commands(recorded: ComparedCommand, new: ComparedCommand) -> Likeness:
    """Compare `new` with a recorded command."""
    if type(recorded.command) is not type(new.command):
        return Likeness(level="other", ratio=0.0)
    unlike = _unlike_fields(recorded, new)
    if not unlike:
        return Likeness(level="exact", ratio=1.0)
    differing = [name for name in unlike if not _fits(recorded.plain[name], new.plain[name])]
    shown = tuple(
        FieldDifference(field=name, recorded=_sample(recorded.fields[name]), new=_sample(new.fields[name]))
        for name in differing or unlike
    )
    if not differing:
        return Likeness(level="same", ratio=1.0, differences=shown)
    near = min(_ratio(recorded.plain[name], new.plain[name]) for name in differing)
    return Likeness(level="near" if near >= NEAR else "other", ratio=near, differences=shown)


def is_same_command(recorded: ComparedCommand, new: ComparedCommand) -> bool:
    """Return True if `new` equals the recorded command except for ids, times and white space."""
    return type(recorded.command) is type(new.command) and _fit(recorded, new, _unlike_fields(recorded, new))


def nearest_commands(recorded: Sequence[ComparedCommand], new: ComparedCommand) -> list[tuple[int, Likeness]]:
    """Return the recorded commands most similar to `new`, best first, as index and likeness, at most TRIED_MAX.

    Among equal ones the earlier comes first. Only the first can be above the level `near`.
    """
    kin = [place for place, one in enumerate(recorded) if type(one.command) is type(new.command)]
    same = -1
    for place in kin:
        unlike = _unlike_fields(recorded[place], new)
        if not unlike:
            return [(place, compare_commands(recorded[place], new))]
        if same < 0 and _fit(recorded[place], new, unlike):
            same = place
    if same >= 0:
        return [(same, compare_commands(recorded[same], new))]
    estimated = sorted(kin[:ESTIMATED_MAX], key=lambda place: -_estimate(recorded[place], new))
    tried = [(place, compare_commands(recorded[place], new)) for place in estimated[:TRIED_MAX]]
    return sorted(tried, key=lambda pair: (-pair[1].ratio, pair[0]))


def _fields(command: Command) -> dict[str, Any]:
    """Return the compared fields of a command; the segments of an input become one text."""
    fields: dict[str, Any] = {}
    for name in command.__struct_fields__:
        value = getattr(command, name)
        if name in NOT_COMPARED or (name in OF_THE_QUESTION and isinstance(command, commands.Answer)):
            continue
        if name == "segments":
            attached = [msgspec.to_builtins(s) for s in value if not flatten((s,))]
            fields["text"], fields["attached"] = flatten(value), attached
        else:
            fields[name] = _read(value) if isinstance(value, Raw) else None if value is UNSET else value
    return fields


def _read(raw: Raw) -> object:
    """Return a JSON value, or its text if it is nested too deep or has a number that is out of range."""
    try:
        return read_json(bytes(raw), DEPTH_MAX)
    except PeerError:
        return bytes(raw).decode("utf-8", "replace")


def _unlike_fields(recorded: ComparedCommand, new: ComparedCommand) -> list[str]:
    """Return the fields in which two commands of one type differ.

    Any `values` match an answer that was recorded without values.
    """
    unlike = [name for name, value in recorded.fields.items() if value != new.fields[name]]
    if "values" in unlike and recorded.fields["values"] is None and not recorded.fields["declined"]:
        unlike.remove("values")
    return unlike


def _fit(recorded: ComparedCommand, new: ComparedCommand, names: list[str]) -> bool:
    if not recorded.is_redacted:
        return all(recorded.plain[name] == new.plain[name] for name in names)
    return all(_fits(recorded.plain[name], new.plain[name]) for name in names)


def _fits(recorded: Any, new: Any) -> bool:
    """Return True if a plain value equals the recorded one, where redacted parts match any text."""
    if isinstance(recorded, str) and isinstance(new, str):
        return recorded == new or _fits_around(_REDACTED.split(recorded), new)
    if isinstance(recorded, dict) and isinstance(new, dict):
        return recorded.keys() == new.keys() and all(_fits(value, new[key]) for key, value in recorded.items())
    if isinstance(recorded, list | tuple) and isinstance(new, list | tuple):
        return len(recorded) == len(new) and all(map(_fits, recorded, new))
    return bool(recorded == new)


def _fits_around(pieces: list[str], new: str) -> bool:
    """Return True if a text has these pieces, with any text between them."""
    first, *rest = pieces
    if not rest or not new.startswith(first):
        return False
    at = len(first)
    for piece in rest[:-1]:
        found = new.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return new.endswith(rest[-1]) and len(new) - len(rest[-1]) >= at


def _plain(value: Any) -> Any:
    """Return a value whose texts have no ids, times and repeated white space."""
    if isinstance(value, str):
        text = " ".join(_TIME.sub("<time>", _UUID.sub("<id>", value)).split())
        return value if text == value else text  # most texts are plain: they are kept once
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _ratio(recorded: Any, new: Any) -> float:
    """Return the ratio of two plain texts: the share of the characters at their beginnings that both have in the same
    order.

    These characters are the longest common subsequence. Each bit of `free` is a character of the recorded text that is
    not part of it yet. So one addition does the work for all of them.
    """
    if not isinstance(recorded, str) or not isinstance(new, str):
        return 0.0
    one, other = recorded[:TEXT_MAX], new[:TEXT_MAX]
    if not one or not other:
        return 0.0
    places: dict[str, int] = {}
    for place, letter in enumerate(one):
        places[letter] = places.get(letter, 0) | 1 << place
    all_free = free = (1 << len(one)) - 1
    for letter in other:
        found = free & places.get(letter, 0)
        free = (free + found | free - found) & all_free
    return 2 * (len(one) - free.bit_count()) / (len(one) + len(other))


def _estimate(recorded: ComparedCommand, new: ComparedCommand) -> float:
    """Return a cheap upper bound of the ratio of two commands, from the number of each of their characters."""
    unlike = [name for name in recorded.letters if name in new.letters and recorded.fields[name] != new.fields[name]]
    return min((_shared_letters(recorded.letters[name], new.letters[name]) for name in unlike), default=0.0)


def _shared_letters(one: Counter[str], other: Counter[str]) -> float:
    length = one.total() + other.total()
    return 2 * (one & other).total() / length if length else 1.0


def _sample(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= FIELD_SAMPLE else f"{text[: FIELD_SAMPLE - 1]}…"
