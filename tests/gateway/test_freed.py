"""Bad frames are freed: no fault or struct keeps the bytes of a read alive.

The collector is off in these tests: an object that only it could free counts as kept. A struct with `gc=False` is not
seen by the collector at all, so such a struct may reach only plain values.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import itertools
import pkgutil
import time
import tracemalloc
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import msgspec
import pytest
from msgspec import Struct

from dragoman import adapters, gateway, mappings
from dragoman.gateway import registry
from dragoman.gateway.link import Link, LinkEvents
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.peer import Peer
from dragoman.mappings.dialect import Burst, Dialect, Direction, Step, Translator
from dragoman.mappings.errors import PeerError
from tests.idle import settle
from tests.memory_transport import MemoryTransport
from tests.services import services

MEBIBYTE = 1 << 20
COUNT = 4

DIALECTS = registry.dialects()

BAD: dict[str, Callable[[], bytes]] = {
    "no JSON": lambda: b"{" + b"x" * MEBIBYTE,
    "no UTF-8": lambda: b'{"x":"' + b"\xff" * MEBIBYTE + b'"}',
    "no message": lambda: b'{"x":"' + b"x" * MEBIBYTE + b'"}',
    "no object": lambda: b'["' + b"x" * MEBIBYTE + b'"]',
    "too deep": lambda: b"[" * MEBIBYTE,
    "nested too deep": lambda: b'{"x":' + b"[" * 200 + b'"' + b"x" * MEBIBYTE + b'"' + b"]" * 200 + b"}",
}
"""Frames of 1 MiB; each dialect refuses them, or counts what it leaves out."""


def broken(direction: Direction[Any]) -> Callable[[], bytes]:
    """Return a maker of a message of this direction with a known tag and a value of a wrong type."""
    codec: Any = direction.codec
    tag = getattr(codec, "_tag_field", "") or "method"
    name = next(iter(getattr(codec, "_variants", {"thread/read": None})))
    return lambda: b'{"id":[],"%s":"%s","data":"%s"}' % (tag.encode(), str(name).encode(), b"x" * MEBIBYTE)


def new_ids() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: str(UUID(int=next(numbers)))


def server(dialect: Dialect) -> Translator[Any, Any]:
    return dialect.server(time.time_ns, new_ids(), "")


def client(dialect: Dialect) -> Translator[Any, Any]:
    return dialect.client(time.time_ns, new_ids(), time.monotonic_ns)


ROLES = {"server": (server, "commands"), "client": (client, "events")}


@contextmanager
def kept() -> Iterator[list[int]]:
    """Collect the bytes that are still allocated at the end of the block, without running the garbage collector."""
    bytes_kept: list[int] = []
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        yield bytes_kept
        after, _ = tracemalloc.get_traced_memory()
        bytes_kept.append(after - before)
    finally:
        tracemalloc.stop()
        gc.enable()


@pytest.mark.parametrize("shape", [*BAD, "wrong type"])
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", DIALECTS)
def test_a_translator_frees_malformed_frames(name: str, role: str, shape: str) -> None:
    make, way = ROLES[role]
    translator = make(DIALECTS[name])
    frame = BAD.get(shape) or broken(getattr(DIALECTS[name], way))
    step = translator.receive([frame()])
    assert step.faults or step.losses, "refused or counted"
    del step
    with kept() as count:
        for _ in range(COUNT):
            translator.receive([frame()])
    assert count[0] < MEBIBYTE


@pytest.mark.parametrize("name", DIALECTS)
async def test_a_link_frees_malformed_frames(name: str) -> None:
    dialect, transport, ledger = DIALECTS[name], MemoryTransport(), Ledger()
    link = Link(
        Peer(id="l1", dialect=dialect),
        transport,
        server(dialect),
        services(ledger=ledger),
        LinkEvents(sink=no_sink),
    )
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(link.run(), name="link")
        await settle()
        with kept() as count:
            for _ in range(COUNT):
                await transport.says(BAD["no JSON"]())
                transport.got.clear()
        transport.hang_up()
    assert sum(ledger.counters.values()) == COUNT
    assert count[0] < MEBIBYTE


def no_sink(_link: Link, _bursts: list[Burst[Any]]) -> None:
    """Ignore the events of the peer."""


def refuse() -> None:
    try:
        int("x")
    except ValueError as error:
        raise PeerError("invalid", "no") from error


def test_a_fault_in_a_step_references_no_other_exception() -> None:
    step: Step[Any] = Step()
    try:
        refuse()
    except PeerError as error:
        step.add_fault(error)
    (fault,) = step.faults
    assert (fault.__traceback__, fault.__cause__, fault.__context__) == (None, None, None)


# -- structs that the collector does not see --------------------------------------------------------


PLAIN = {int, float, bool, str, bytes, types.NoneType, UUID, msgspec.Raw, msgspec.UnsetType}
CONTAINERS = {tuple, list, dict, Sequence, Mapping, typing.Union, types.UnionType}
OPAQUE = {Any, object}
"""JSON that was decoded: it has no cycles and no objects of ours."""

CANONICAL = {"dragoman.mappings.dialect.Burst.items"}
"""Declared as Any, and always a list of commands or events, which are looked at by themselves."""


def structs() -> Iterator[type[Struct]]:
    """Yield every struct that the three packages declare."""
    for package in (mappings, adapters, gateway):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    waiting = list(Struct.__subclasses__())
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__module__.split(".")[0] == "dragoman":
            yield kind


def reached(kind: Any, seen: set[Any]) -> Iterator[Any]:
    """Yield every type, except plain values, that a value of this type can reach."""
    if isinstance(kind, types.GenericAlias | typing._GenericAlias | types.UnionType):  # type: ignore[attr-defined]  # the private base of typing's own
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin is typing.Annotated:
            yield from reached(arguments[0], seen)
        elif origin in CONTAINERS:
            for argument in arguments:
                yield from reached(argument, seen)
        elif isinstance(origin, type) and issubclass(origin, Struct):  # a generic struct
            for argument in (origin, *arguments):
                yield from reached(argument, seen)
        elif origin not in (typing.Literal, typing.ClassVar):  # no instance refers to a variable of its class
            yield origin
    elif isinstance(kind, type) and (issubclass(kind, Struct) or hasattr(kind, "_fields")):
        if kind not in seen:
            seen.add(kind)
            for hint in typing.get_type_hints(kind, include_extras=True).values():
                yield from reached(hint, seen)
    elif kind not in PLAIN | CONTAINERS | OPAQUE and kind is not Ellipsis and not isinstance(kind, typing.TypeVar):
        yield kind


def uncollected(kind: type[Struct]) -> list[str]:
    """Yield the fields of a struct that reach more than plain values, and the types that they reach."""
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = {f"{kind.__module__}.{kind.__qualname__}.{field}": hint for field, hint in hints.items()}
    return [
        f"{field}: {kind}" for field, hint in fields.items() if field not in CANONICAL for kind in reached(hint, set())
    ]


def test_a_struct_hidden_from_the_collector_references_only_plain_values() -> None:
    hidden = [kind for kind in structs() if not kind.__struct_config__.gc]
    assert len(hidden) > 100
    assert [found for kind in hidden for found in uncollected(kind)] == []


class Holder(Struct, gc=False):
    calls: list[Callable[[], None]]
    fault: PeerError | None
    name: str = ""


def test_a_hidden_struct_with_a_callable_or_an_exception_is_detected() -> None:
    assert [found.split(": ")[0].rsplit(".", 1)[1] for found in uncollected(Holder)] == ["calls", "fault"]
