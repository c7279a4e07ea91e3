"""The cost of a malicious message is proportional to its size, for every dialect in both roles.

Each message that a dialect can write is enlarged in one of several ways, at n, 2n and 4n. The translator that reads it
gets each size. Steps are counted, never time. All dialects of the registry are tested, so a new one is too.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from functools import cache
from typing import Any, get_args
from uuid import UUID

import pytest

from dragoman.adapters.lines import LineSplitter
from dragoman.gateway import registry
from dragoman.gateway.observability.logs import escaped
from dragoman.gateway.recording.redaction.rules import redact_text
from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.dialect import Burst, Dialect, Oversize, Parts, Step, Translator
from tests.legal_samples import legal_samples
from tests.step_counter import GROWTH, growth

SIZES = (5, 10, 20, 40)  # the first only fills caches; then n, 2n and 4n
LONG = 320  # n for shapes that bring a second look past some length: all counted sizes are past it
SHORT = 160
ROLES = ("server", "client")

DIALECTS = registry.dialects()

READERS = frozenset(
    {
        *("Codec.check", "Codec._read", "Codec.mend"),
        *(
            "check_value_count",
            "check_depth",
            "as_go_reads",
            "Shared.check",
            "Events.decode",
            "Events.mend",
            "Events.check",
        ),
        *("Requests.decode", "Requests.mend", "Requests.check", "escaped", "LineSplitter.feed", "LineSplitter._hold"),
        *("layers", "unescaped", "Finder._find_all", "Finder._find", "Detector.matches", "flatten"),
    }
)
"""Functions that read all of the bytes or text that they are given."""

# -- blowing up -------------------------------------------------------------------------------------------


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return the JSON value with `change` applied to each part; changed parts are not searched further."""
    changed = change(value)
    if changed is not value:
        return changed
    if isinstance(value, dict):
        return {key: mapped(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [mapped(item, change) for item in value]
    return value


def with_keys(value: Any, n: int) -> Any:
    more = {f"undocumented{k}": k for k in range(n // 4)}  # every object gets them, and they bring a second look
    if isinstance(value, dict):
        return {key: with_keys(item, n) for key, item in value.items()} | more
    return [with_keys(item, n) for item in value] if isinstance(value, list) else value


def with_items(value: Any, n: int) -> Any:
    return value * n if isinstance(value, list) and value else value


def with_digits(value: Any, n: int) -> Any:
    return 10**n if isinstance(value, int) and not isinstance(value, bool) else value


def with_text(unit: str) -> Callable[[Any, int], Any]:
    return lambda value, n: value + unit * n if isinstance(value, str) and value == "text" else value


SHAPES: dict[str, Callable[[Any, int], Any]] = {
    "undocumented keys": with_keys,
    "long lists": with_items,
    "many digits": with_digits,
    "quotes": with_text('"'),
    "markup": with_text("<a>[x](y) @f {"),
    "lines": with_text("\\n\\u2028 "),
}


def blown_up(frame: bytes, shape: str, n: int) -> bytes:
    """Return the frame in this shape; the bytes before the JSON of a published message stay unchanged."""
    prefix, nul, body = frame.rpartition(b"\0")
    change = SHAPES[shape]
    value = mapped(json.loads(body), lambda part: change(part, n))
    return prefix + nul + json.dumps(value, ensure_ascii=False).encode()


def twice_said(frame: bytes, n: int) -> bytes:
    """Return the frame with one key repeated many times."""
    prefix, nul, body = frame.rpartition(b"\0")
    return prefix + nul + b"{" + b'"k":1,' * n + body.lstrip()[1:]


def spaced(frame: bytes, n: int) -> bytes:
    prefix, nul, body = frame.rpartition(b"\0")
    return prefix + nul + b" " * n + body.replace(b":", b" " * n + b":") + b" " * n


def cut(frame: bytes, n: int) -> bytes:
    """Return a long array without its end."""
    return frame[:-1] + b',"x":' + b"[1," * n


def deep(frame: bytes, n: int) -> bytes:
    """Return the frame with nested arrays in JSON that a message passes on, or in an undocumented key."""
    nested = b"[" * n + b"]" * n
    return (
        frame.replace(b'{"a":[1,null]}', nested)
        if b'{"a":[1,null]}' in frame
        else frame[:-1] + b',"x":' + nested + b"}"
    )


RAW: dict[str, Callable[[bytes, int], bytes]] = {
    "one key many times": twice_said,
    "space": spaced,
    "cut off": cut,
    "deep": deep,
}


# -- dialects ---------------------------------------------------------------------------------------------


def new_ids() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: str(UUID(int=next(numbers)))


def translator(dialect: Dialect, role: str) -> Translator[Any, Any]:
    return (
        dialect.server(time.time_ns, new_ids(), "")
        if role == "server"
        else dialect.client(time.time_ns, new_ids(), time.monotonic_ns)
    )


@cache
def written(name: str, role: str) -> tuple[bytes, ...]:
    """Return a frame of each kind that the peer of this role writes, as far as a message can be written by itself."""
    dialect = DIALECTS[name]
    direction, union = (dialect.commands, Command) if role == "server" else (dialect.events, Event)
    frames: dict[Any, bytes] = {}
    for item in (item for kind in get_args(union) for item in legal_samples(kind)):
        for frame in direction.write(Burst(items=[item], request="r1", at=1)).frames:
            message = direction.codec.decode(frame)
            frames.setdefault((type(message), getattr(message, "method", "")), frame)
    return tuple(frames.values())


def received(dialect: Dialect, role: str) -> Callable[[list[bytes]], Callable[[], object]]:
    def prepare(frames: list[bytes]) -> Callable[[], object]:
        link = translator(dialect, role)
        link.opened()
        return lambda: link.receive(frames)

    return prepare


@pytest.mark.parametrize("shape", [*SHAPES, *RAW])
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", DIALECTS)
def test_the_cost_of_a_message_is_proportional_to_its_size(name: str, role: str, shape: str) -> None:
    frames = written(name, role)
    least = LONG if shape in ("many digits", "quotes", "markup") else SHORT
    sizes = (least // 2, least, 2 * least, 4 * least)
    grown = {}
    for frame in frames:
        inputs = [RAW[shape](frame, n) if shape in RAW else blown_up(frame, shape, n) for n in sizes]
        if len(inputs[0]) < len(inputs[-1]):  # it has something to blow up
            grown[frame[:80]] = growth(received(DIALECTS[name], role), [[each] for each in inputs], READERS)
    assert {frame: times for frame, times in grown.items() if times > GROWTH} == {}


def test_each_shape_enlarges_messages_of_some_dialect() -> None:
    frames = [frame for name in DIALECTS for role in ROLES for frame in written(name, role)]
    assert len(frames) > 50
    for shape in SHAPES:
        assert any(len(blown_up(frame, shape, 8)) > len(blown_up(frame, shape, 4)) for frame in frames), shape


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", DIALECTS)
def test_the_cost_of_many_messages_is_proportional_to_their_number(name: str, role: str) -> None:
    bad = [b"{", b'{"x":1}', b"\xff", b"[" * 600]
    for frame in [*written(name, role), *bad]:
        times = growth(received(DIALECTS[name], role), [[frame] * n for n in SIZES], READERS)
        assert times <= GROWTH, frame


@pytest.mark.parametrize("name", [name for name, dialect in DIALECTS.items() if dialect.events.unwrap])
def test_the_cost_of_a_message_of_many_parts_is_proportional_to_their_number(name: str) -> None:
    for direction in (DIALECTS[name].events, DIALECTS[name].commands):
        for channel in ("pub", "rpc"):

            def prepare(n: int, direction: Any = direction, channel: str = channel) -> Callable[[], object]:
                parts = Parts(channel, b"i", (b"",) * n + (b"{}",))
                return lambda: direction.receive([parts, Oversize(n, 1, "message_parts")], Step())

            assert growth(prepare, [4 * n for n in SIZES]) <= GROWTH


# -- what every dialect shares ----------------------------------------------------------------------------


def by_bytes(data: bytes) -> Callable[[], object]:
    splitter = LineSplitter(1 << 20)
    return lambda: [splitter.feed(data[at : at + 1]) for at in range(len(data))]


@pytest.mark.parametrize("unit", [b"a", b"\n", b"a\n", b"\xe2\x80\xa8", b" \t", b"\xff"])
@pytest.mark.parametrize("fed", [by_bytes, lambda data: lambda: LineSplitter(1 << 20).feed(data)])
def test_the_cost_of_a_line_is_proportional_to_its_length_however_it_is_split(
    fed: Callable[[bytes], Callable[[], object]], unit: bytes
) -> None:
    assert growth(fed, [unit * 8 * n for n in SIZES], READERS) <= GROWTH


@pytest.mark.parametrize("unit", ["a", "\x1b[2J", "\n", "://a:b@", "secret=", '\\"', "\u202e"])
def test_the_cost_of_a_log_value_is_proportional_to_its_length(unit: str) -> None:
    assert (
        growth(lambda text: lambda: escaped(redact_text(text)), [unit * 160 * n for n in (1, 2, 4, 8)], READERS)
        <= GROWTH
    )


def test_work_that_is_not_proportional_is_detected() -> None:
    def pairs(n: int) -> Callable[[], object]:
        return lambda: [a for a in range(n) for b in range(n) if a == b]

    assert growth(pairs, list(SIZES)) > GROWTH
