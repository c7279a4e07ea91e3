"""New connections and commands of clients that are refused: too many, too large, or for want of memory."""

from __future__ import annotations

import asyncio
import itertools
import json
import tracemalloc
from typing import Any

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from dragoman.gateway import registry
from dragoman.gateway.config.model import Limits
from dragoman.gateway.link import Link, LinkEvents
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.overload import admission
from dragoman.gateway.overload.admission import Admission, CommandLimits, expected_work
from dragoman.gateway.overload.fair_queue import FRAME, QUANTUM
from dragoman.gateway.overload.memory import MemoryBudget
from dragoman.gateway.peer import Peer
from dragoman.mappings.dialect import HEAD, Burst, Frame, Missed, Oversize, Parts
from dragoman.mappings.smooth import DIALECT
from dragoman.mappings.value_count import PIECE, SLICE
from tests.dialects import parts
from tests.gateway.in_memory import ManualClock
from tests.memory_transport import MemoryTransport
from tests.services import services

LIMITS = Limits(address_links=3, connection_rate=2.0, connection_burst=5)


def admitting(time: ManualClock, limits: Limits = LIMITS) -> Admission:
    return Admission(limits, MemoryBudget(), Ledger(), time.clock)


def test_an_address_has_at_most_so_many_links_at_once_and_others_have_their_own() -> None:
    admits = admitting(ManualClock())
    for _ in range(3):
        assert admits.connect("a") == ""
    assert "`address_links`" in admits.connect("a")
    assert admits.connect("b") == ""
    admits.disconnect("a")
    assert admits.connect("a") == ""


def test_an_address_connects_in_a_burst_and_then_at_its_rate() -> None:
    time = ManualClock()
    admits = admitting(time)
    for _ in range(5):
        assert admits.connect("a") == ""
        admits.disconnect("a")
    assert "`connection_rate`" in admits.connect("a")
    assert admits.connect("b") == ""
    time.passes(0.6)
    assert admits.connect("a") == ""


def test_another_rate_counts_at_once_for_addresses_that_are_known() -> None:
    admits = admitting(ManualClock())
    for _ in range(5):
        assert admits.connect("a") == ""
        admits.disconnect("a")
    admits.change_limits(structs.replace(LIMITS, links=9))
    assert "`connection_rate`" in admits.connect("a")
    admits.change_limits(structs.replace(LIMITS, connection_burst=1))
    assert admits.connect("a") == ""
    admits.disconnect("a")
    assert "`connection_rate`" in admits.connect("a")


def test_a_link_counts_with_its_connection_unless_its_listener_counted_that() -> None:
    admits = admitting(ManualClock(), Limits(address_links=1, links=2))
    assert admits.enter("a") == ""
    assert "`address_links`" in admits.enter("a")
    assert admits.enter() == ""
    assert "`links`" in admits.enter()
    admits.leave("a")
    assert admits.enter("a") == ""


def test_refusals_are_counted_and_logged_once_a_second() -> None:
    time, ledger = ManualClock(), Ledger()
    admits = Admission(LIMITS, MemoryBudget(), ledger, time.clock)
    for _ in range(3):
        admits.connect("a")
    with capture_logs() as lines:
        for _ in range(10):
            admits.connect("a")
        admits.flush()
    assert [(line["event"], line["count"]) for line in lines] == [("clients refused", 1), ("clients refused", 9)]
    assert sum(ledger.counters.values()) == 10


def test_no_client_is_admitted_without_file_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "descriptor_shortage", lambda: "too many open files")
    assert admitting(ManualClock()).connect("a") == "too many open files"


def test_the_latest_of_very_many_addresses_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "ADDRESSES_MAX", 10)
    admits = admitting(ManualClock())
    for number in range(100):
        admits.connect(str(number))
        admits.disconnect(str(number))
    assert [*admits._rates] == [str(number) for number in range(90, 100)]
    assert not admits._connections


COMMAND_LIMITS = Limits(max_command=20_000, message_values=5_000)


def checked(frame: Frame, name: str = "smooth") -> Frame:
    checked = CommandLimits(COMMAND_LIMITS, registry.dialects()[name]).check(frame)
    assert checked is not None
    return checked


@pytest.mark.parametrize(
    "frame",
    [b"[" * 5_000, b'{"text":"' + b"x," * 9_000 + b'"}', Missed(channel="pub", count=1), Parts("rpc", b"", (b"{}",))],
)
def test_a_frame_within_the_limits_stays_as_it_is(frame: Frame) -> None:
    assert checked(frame) is frame


def test_a_frame_over_max_command_is_refused() -> None:
    assert checked(b"x" * 20_001) == Oversize(size=20_001, limit=20_000, name="max_command", head=b"x" * HEAD)
    assert checked(Parts("rpc", b"me", (b"x" * 20_000, b"x"))) == Oversize(
        size=20_001, limit=20_000, name="max_command", head=b"x"
    )


@pytest.mark.parametrize("frame", [b"[" + b"0," * 9_000 + b"0]", b"[" * 9_000, b'{"a":' * 3_500 + b"[" * 2_000])
def test_a_frame_of_more_values_than_message_values_is_refused(frame: bytes) -> None:
    refused = checked(frame)
    assert isinstance(refused, Oversize)
    assert (
        refused.text == f"message of {len(frame)} bytes has more JSON values than the limit of 5000 (`message_values`)"
    )


@pytest.mark.parametrize(
    ("name", "frame"),
    [
        ("smooth", {"action": "send_message", "images": [{"url": "data:" + "x" * 30_000}]}),
        ("pando", {"method": "db.write", "params": {"text": "x" * 30_000}}),
        ("codewhale", {"method": "thread/resume", "params": {"history": ["x" * 30_000]}}),
        ("codewhale", {"method": "thread/message", "params": {"images": [{"dataBase64": "x" * 30_000}]}}),
        ("codewhale", {"method": "thread/request", "params": {"images": ["x" * 30_000], "kind": "message"}}),
        ("codewhale", {"method": "prompt/run", "params": {"images": [{"dataBase64": "x" * 30_000}]}}),
    ],
)
def test_attachments_stored_messages_and_histories_may_be_longer(name: str, frame: dict[str, Any]) -> None:
    data = json.dumps(frame).encode()
    assert checked(data, name) is data


@pytest.mark.parametrize(
    ("name", "frame"),
    [
        ("smooth", {"action": "ping", "images": 0, "more": "x" * 30_000}),
        ("smooth", {"action": "ping", "images": "x" * 30_000}),
        ("smooth", {"action": "send_message", "images": [], "message": "x" * 30_000}),
        ("smooth", {"action": "send_message", "message": 'x"images"' * 3_000}),
        ("pando", {"method": "message.send", "params": {"session_id": "db.write", "text": "x" * 30_000}}),
        ("pando", {"method": "db.write", "more": "x" * 30_000}),
        ("codewhale", {"method": "healthz", "params": {"history": ["x" * 30_000]}}),
        ("codewhale", {"method": "thread/resume", "params": {"history": [], "path": "x" * 30_000}}),
        ("codewhale", {"method": "thread/resume", "params": {"images": ["x" * 30_000]}}),
        ("codewhale", {"method": "thread/request", "params": {"images": ["x" * 30_000], "kind": "read"}}),
        ("codewhale", {"method": "thread/message", "params": {"images": [], "input": "x" * 30_000}}),
    ],
)
def test_the_rest_of_a_command_and_all_other_commands_may_not_be_longer(name: str, frame: dict[str, Any]) -> None:
    data = json.dumps(frame).encode()
    refused = checked(data, name)
    assert isinstance(refused, Oversize)
    assert (refused.size, refused.limit, refused.name) == (len(data), 20_000, "max_command")


def test_the_values_of_a_large_frame_are_counted_in_slices() -> None:
    limits = CommandLimits(COMMAND_LIMITS, registry.dialects()["smooth"])

    def count(image: str) -> tuple[int, Frame]:
        frame = json.dumps({"action": "send_message", "images": [{"url": image}]}).encode()
        for slices in itertools.count(1):
            if (result := limits.check(frame)) is not None:
                return slices, result
        raise AssertionError

    mebibyte = PIECE * SLICE
    assert count("x" * (3 * mebibyte))[0] == 4
    assert count("," * (3 * mebibyte))[0] == 4, "the first piece tells that strings must be left out"
    slices, refused = count("x" * (2 * mebibyte) + '"},' + "[0]," * 5_000 + '{"url":"')
    assert (slices, isinstance(refused, Oversize)) == (5, False), "JSON in a string"
    frame = b'{"action":"send_message","images":["' + b"x" * mebibyte + b'",' + b"0," * 6_000 + b"0]}"
    assert limits.check(frame) is limits.check(frame) is None, "with strings, then without"
    assert isinstance(limits.check(frame), Oversize)


def test_only_the_part_of_a_call_that_is_read_may_be_long() -> None:
    write = b'{"method":"db.write","params":{"content":"' + b"x" * 20_000 + b'"}}'
    assert checked(call := Parts("rpc", b"me", (b"", write)), "pando") is call
    refused = checked(Parts("rpc", b"me", (b"", write, write)), "pando")
    assert isinstance(refused, Oversize)
    assert (refused.size, refused.name) == (2 * len(write), "max_command")


def test_an_attachment_does_not_make_room_for_more_values() -> None:
    frame = b'{"action":"send_message","images":[' + b"0," * 9_000 + b"0]}"
    refused = checked(frame)
    assert isinstance(refused, Oversize)
    assert refused.name == "message_values"


@pytest.mark.parametrize("name", registry.OURS)
def test_an_input_is_expected_to_take_more_work_than_a_ping(name: str) -> None:
    inputs = registry.dialects()[name].cost.inputs
    data, ping = parts(name).input.encode(), b'{"action":"ping"}'
    assert expected_work(inputs, data) == QUANTUM
    assert expected_work(inputs, Parts("rpc", b"me", (b"", data))) == QUANTUM
    assert expected_work(inputs, ping) < FRAME


@pytest.mark.parametrize(
    ("frame", "value"),
    [
        (b'{"a": "b", "id":-7 ,"c":null,"d":"%s"}', {"a": "b", "id": -7, "c": None}),
        (b'{"a":{"id":1},"id":2,"d":"%s"}', None),
        (b'{"a":"\\"","id":2,"d":"%s"}', None),
        (b'{"a":"%s","id":2}', None),
    ],
    ids=["plain", "behind an object", "behind an escape", "behind the long text"],
)
def test_a_refused_command_keeps_the_plain_members_with_which_it_begins(frame: bytes, value: object) -> None:
    refused = checked(frame % (b"x" * 30_000))
    assert isinstance(refused, Oversize)
    assert refused.first_members == value


@pytest.mark.parametrize(
    ("name", "frame", "answered"),
    [
        ("smooth", b'{"action":"ping","requestId":"r1","x":"%s"}', {"type": "error", "requestId": "r1"}),
        ("pando", b'{"jsonrpc":"2.0","id":"r1","method":"session.get","params":{"x":"%s"}}', {"id": "r1"}),
        ("codewhale", b'{"jsonrpc":"2.0","id":1,"method":"thread/read","params":{"x":"%s"}}', {"id": 1}),
    ],
)
async def test_the_refusal_of_a_command_over_the_limit_has_the_id_of_its_request(
    name: str, frame: bytes, answered: dict[str, object]
) -> None:
    dialect = registry.dialects()[name]
    data = frame % (b"x" * 30_000)
    sent = Parts("rpc", b"me", (b"", data)) if name == "pando" else data
    step = dialect.server(lambda: 0, lambda: "id").receive([checked(sent, name)])
    (answer,) = step.frames
    got = json.loads(answer.parts[-1] if isinstance(answer, Parts) else answer)
    assert got.items() >= answered.items()


@pytest.mark.parametrize("name", registry.OURS)
async def test_a_client_over_the_limit_gets_the_error_of_its_dialect_and_stays_connected(name: str) -> None:
    transport, ledger = MemoryTransport(), Ledger()
    dialect = registry.dialects()[name]
    link = Link(
        Peer(id="l1", dialect=dialect, limited=True),
        transport,
        dialect.server(lambda: 0, lambda: "id"),
        services(ledger=ledger, limits=COMMAND_LIMITS),
        LinkEvents(sink=lambda _link, _bursts: None),
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(link.run(), name="link")
        dear = b"[" + b"0," * 9_000 + b"0]"
        await transport.says(Parts("rpc", b"me", (b"", dear)) if name == "pando" else dear)
        assert ledger.counters[f"faults_{name}_too_large"] == 1
        assert transport.is_open()
        assert transport.got or name in ("pod", "pando"), "which answer nothing that they cannot read"
        transport.hang_up()


@pytest.mark.parametrize(
    ("name", "begin"),
    [
        ("smooth", b'{"action":"submit_interaction","requestId":"r","values":{"x":'),
        ("pod", b'{"method":"run","params":{"input":'),
        ("pando", b'{"jsonrpc":"2.0","id":"1","method":"db.write","params":{"x":'),
        ("codewhale", b'{"jsonrpc":"2.0","id":1,"method":"thread/message","params":{"input":'),
    ],
)
async def test_a_message_of_too_many_values_is_refused_before_it_is_decoded(name: str, begin: bytes) -> None:
    """Its values take 25 to 50 times as much memory as its bytes."""
    transport, ledger, dialect = MemoryTransport(), Ledger(), registry.dialects()[name]
    link = Link(
        Peer(id="l1", dialect=dialect, limited=True),
        transport,
        dialect.server(lambda: 0, lambda: "id"),
        services(ledger=ledger, limits=Limits()),
        LinkEvents(sink=lambda _link, _bursts: None),
    )
    data = begin + b"[" + b"{}," * 80_000 + b"{}]}}"
    frame = Parts("rpc", b"me", (b"", data)) if name == "pando" else data
    async with asyncio.TaskGroup() as group:
        group.create_task(link.run(), name="link")
        tracemalloc.start()
        try:
            await transport.says(frame)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 3 * len(data)
        assert ledger.counters[f"faults_{name}_too_large"] == 1
        transport.hang_up()


async def test_frames_of_a_backend_may_exceed_the_limits_of_clients() -> None:
    transport = MemoryTransport()
    heard: list[Burst[Any]] = []
    link = Link(
        Peer(id="l1", dialect=DIALECT),
        transport,
        DIALECT.client(lambda: 0, lambda: "id", lambda: 0),
        services(limits=COMMAND_LIMITS),
        LinkEvents(sink=lambda _link, bursts: heard.extend(bursts)),
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(link.run(), name="link")
        await transport.says(json.dumps({"type": "keepalive", "data": {"timestamp": 1}, "more": [0] * 9_000}).encode())
        assert link.fault is None
        transport.hang_up()
