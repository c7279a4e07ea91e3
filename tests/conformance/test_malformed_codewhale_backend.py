"""Malformed messages of codewhale servers, with the gateway as their client
(docs/dialects/codewhale.md, sections 0, 1, 3, 5, 6 and 11).

Clients receive only legal lines and one end of each turn, and dropped messages are counted. The connection stays, and
carries the next turn. A client in another session, whose codewhale is another process, notices nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config, Limits, Route
from dragoman.gateway.endpoint import parse
from dragoman.mappings.codewhale.vocabulary import SEED, methods
from tests.awaited import until
from tests.conformance.fake_codewhale import FakeCodewhale, accepted, bare
from tests.dialects import parts
from tests.pairs.gateway import SmoothClient, serving
from tests.pairs.turn_clients import TurnClient, join

MAX_MESSAGE = 4 * 1024 * 1024
LIMITS = Limits(max_message=MAX_MESSAGE, drain_deadline=0.5, backoff_first=0.02, backoff_max=0.1)
ASKERS = ("smooth", "codewhale")
FORGOTTEN = "the backend has forgotten the conversation: it knows nothing of what was said before"
HANGS_UP = b""
"""Said by a codewhale whose connection ends."""

START, END = bare("start"), bare("end")
WELL = {"id": "$id", "result": "$accepted"}


class Row(Struct, frozen=True, kw_only=True):
    """Lines that the codewhale server sends in a turn that stays open, or in none. `text` and `end` are what the client
    sees of its turn, if the lines end it. `counted` is the number of faults and losses, or -1 if the test ignores
    it.
    """

    name: str
    say: Sequence[dict[str, Any] | bytes]
    text: str = ""
    end: str = ""
    counted: int = 0


def delta(text: Any) -> dict[str, Any]:
    return bare("delta", delta=text)


def failing(message: str, **more: Any) -> dict[str, Any]:
    return {"id": "$id", "error": {"code": -32603, "message": message, "data": None, **more}}


def event(name: str, **more: Any) -> dict[str, Any]:
    return {"event": name, "response_id": "r", **more}


def row(name: str, *say: Any, text: str = "", end: str = "", counted: int = 0) -> Row:
    return Row(name=name, say=say, text=text, end=end, counted=counted)


def raw(text: str) -> bytes:
    return text.encode() + b"\n"


UNREADABLE: dict[str, bytes] = {
    "1: not JSON": raw("hello"),
    "1: JSON cut off": raw('{"type":"response_delta","response_id":'),
    "1: two values on one line": raw(json.dumps(delta("x")) * 2),
    "1: not UTF-8": b'{"type":"response_delta","response_id":"r","delta":"\xff"}\n',
    "1: a lone surrogate": raw('{"type":"response_delta","response_id":"r","delta":"\\ud83d"}'),
    "1: nested 200 deep": raw('{"id":99,"result":' + "[" * 200 + "]" * 200 + "}"),
    "1: nested 100,000 deep": raw("[" * 100_000 + "]" * 100_000),
    "1: a line over max_message": raw(json.dumps(delta("x" * MAX_MESSAGE))),
    "1: a line far over max_message": raw(json.dumps(delta("x" * 3 * MAX_MESSAGE))),
    **{f"11: {text}": raw(text) for text in ("[]", "7", "null", '"x"', "{}", '{"id":99}', '{"jsonrpc":"2.0"}')},
    "11: a request": raw('{"jsonrpc":"2.0","id":99,"method":"healthz"}'),
    "11: a type that is a number": raw('{"type":7}'),
    "0: a delta without its text": raw('{"type":"response_delta","response_id":"r"}'),
    "0: a text that is a number": raw(json.dumps(delta(7))),
    "0: a text that is null": raw(json.dumps(delta(None))),
    "0: a start without an id": raw('{"type":"response_start"}'),
    "5: a hook without a phase": raw('{"type":"tool_lifecycle","response_id":"r","tool_name":"t","payload":{}}'),
    "5: a frame of an unknown event": raw('{"type":"generic_event_frame","frame":{"event":"new"}}'),
}
"""Lines that a client logs and skips (section 11): to us each costs itself alone."""

NOBODY: dict[str, bytes] = {
    "11: an answer to nobody": raw('{"jsonrpc":"2.0","id":99,"result":{}}'),
    "11: an answer to nobody without a version": raw('{"id":99,"result":{}}'),
    "11: an error to nobody": raw('{"jsonrpc":"2.0","id":99,"error":{"code":-32603,"message":"m","data":null}}'),
    "1.2: a result without an id": raw('{"jsonrpc":"2.0","id":null,"result":{}}'),
    "11: an answer under a text": raw('{"jsonrpc":"2.0","id":"x","result":{}}'),
    "11: an answer with a result and an error": raw('{"id":99,"result":{},"error":{"code":1,"message":"m"}}'),
    "11: an answer of an older JSON-RPC": raw('{"jsonrpc":"1.0","id":99,"result":{}}'),
    "11: an error without a code": raw('{"id":99,"error":{"message":"m"}}'),
}
"""Answers to no request of ours."""

PARSE_ERROR = raw('{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m","data":null}}')

UNKNOWN = {
    "0: a line of an unknown type": raw('{"type":"response_paused","response_id":"r"}'),
    "5: a tool's hook": raw('{"type":"tool_lifecycle","response_id":"r","tool_name":"t","phase":"p","payload":{}}'),
    "5: a job's hook": raw('{"type":"job_lifecycle","job_id":"j","phase":"p","progress":null,"detail":null}'),
    "5: an approval's hook": raw('{"type":"approval_lifecycle","approval_id":"a","phase":"p","reason":null}'),
}
"""Messages that no client is shown: each is counted as not delivered, in each direction."""

COSTS_ITSELF = [
    *[row(name, line, counted=1) for name, line in (UNREADABLE | NOBODY).items()],
    *[row(name, line, counted=-1) for name, line in UNKNOWN.items()],
    row("1: blank lines", b"\n \r\n\t\n"),
]

IDLE = [
    *COSTS_ITSELF,
    *[row(f"3: {line['type']} outside of a turn", line, counted=1) for line in (START, delta("x"), END)],
    row("1.2: a parse error outside of a turn", PARSE_ERROR, counted=1),
    row("3: a whole response outside of a turn", START, delta("x"), END, counted=3),
]

ENDS = [
    row("3: a turn", START, delta("a"), delta("b"), END, WELL, text="ab", end="completed"),
    row("1.2: a parse error", START, delta("a"), PARSE_ERROR, text="a", end="failed"),
    row("3: a delta without a start", delta("a"), END, WELL, text="a", end="completed"),
    row("3: no end", START, delta("a"), WELL, text="a", end="completed"),
    row("3: two starts", START, delta("a"), START, delta("b"), END, WELL, text="ab", end="completed"),
    row("3: two ends", START, delta("a"), END, END, WELL, text="a", end="completed"),
    row("3: a text behind the end", START, END, delta("a"), WELL, text="a", end="completed"),
    row("3: an end before the start", END, START, delta("a"), WELL, text="a", end="completed"),
    row("3: an end alone", END, WELL, end="completed"),
    row("3: a start alone", START, WELL, end="completed"),
    row("3: nothing but the result", WELL, end="completed"),
    row(
        "11: under another name",
        bare("start", "other"),
        bare("delta", "third", delta="a"),
        END,
        WELL,
        text="a",
        end="completed",
    ),
    row("6: an empty text", START, delta(""), END, WELL, end="completed"),
    row(
        "3: an undocumented channel",
        START,
        delta("a"),
        bare("delta", delta="b", channel="sound"),
        END,
        WELL,
        text="a",
        end="completed",
        counted=1,
    ),
    row("3: a text of 1 MB", START, *[delta("x" * 100_000)] * 8, END, WELL, text="x" * 800_000, end="completed"),
    row("3: a failure", START, delta("a"), END, failing("provider exploded"), text="a", end="failed"),
    row("3: a failure without an end", START, delta("a"), failing("provider exploded"), text="a", end="failed"),
    row("1.2: a failure of an unknown code", START, failing("m", code=-1), end="failed"),
    row("1.2: a failure with more", START, failing("m", more=1), end="failed", counted=1),
    row(
        "3: an interruption that nobody asked for",
        START,
        delta("a"),
        END,
        failing("turn interrupted"),
        text="a",
        end="cancelled",
    ),
    row("1.2: the answer twice", START, delta("a"), END, WELL, WELL, text="a", end="completed", counted=1),
    row("1.2: a result, then an error", START, END, WELL, failing("m"), end="completed", counted=1),
    row("1.2: an error, then a result", START, END, failing("m"), WELL, end="failed", counted=1),
    row("3: a text behind the answer", START, delta("a"), END, WELL, delta("b"), text="a", end="completed", counted=1),
    row(
        "2.2: an answer that is a number", START, delta("a"), END, {"id": "$id", "result": 5}, text="a", end="completed"
    ),
    row(
        "2.2: an answer of another method",
        START,
        END,
        {"id": "$id", "result": {"ok": True, "data": {}}},
        end="completed",
    ),
    row(
        "2.2: an answer with members that nobody knows",
        START,
        END,
        {"id": "$id", "result": "$accepted", "x": 1},
        end="completed",
        counted=1,
    ),
    row(
        "2.2: an answer that cannot be read",
        START,
        delta("a"),
        END,
        {"id": "$id", "result": {"thread_id": "t", "status": "accepted", "events": None}},
        text="a",
        end="failed",
        counted=1,
    ),
    row(
        "3: the text said again in the result",
        START,
        delta("a"),
        END,
        {"id": "$id", "result": "$accepted", "events": [event("response_delta", delta="a")]},
        text="a",
        end="completed",
    ),
    row(
        "3: the text in the result alone",
        START,
        END,
        {
            "id": "$id",
            "result": "$accepted",
            "events": [
                event("response_start"),
                event("response_delta", delta="a"),
                event("response_end"),
            ],
        },
        text="a",
        end="completed",
    ),
    row(
        "6: a frame of an unknown name in the result",
        START,
        delta("a"),
        END,
        {"id": "$id", "result": "$accepted", "events": [{"event": "new"}]},
        text="a",
        end="completed",
        counted=1,
    ),
]

LOST = [
    row("1: the end of the connection", START, delta("a"), HANGS_UP, text="a", end="failed"),
    row(
        "1: the end in the middle of a line",
        START,
        delta("a"),
        b'{"type":"response_de',
        HANGS_UP,
        text="a",
        end="failed",
        counted=1,
    ),
    row("1: the end before anything was said", HANGS_UP, end="failed"),
    row("1: the end between response and result", START, delta("a"), END, HANGS_UP, text="a", end="failed"),
]


class Stand(Struct):
    """A gateway before the fake server, a client that sends the requests, and a bystander in another session."""

    app: App
    fake: FakeCodewhale
    asker: TurnClient
    bystander: TurnClient
    url: str


@asynccontextmanager
async def stand(dialect: str, folder: Path, can: Any = ...) -> AsyncIterator[Stand]:
    async with FakeCodewhale.serving(folder / "fake") as fake:
        if can is not ...:
            fake.can = can
        listen = ("smooth+ws://127.0.0.1:0/ws", f"codewhale+unix:{folder}/front", "smooth+ws://127.0.0.1:0/other")
        route = Route(name="test", listen=tuple(map(parse, listen)), upstream=parse(f"codewhale+unix:{folder}/fake"))
        app = App(Config(routes=(route,), limits=LIMITS))
        async with serving(app) as endpoints:
            urls = [endpoint.partition("+")[2] for endpoint in endpoints]
            async with join("smooth", urls[2]) as bystander, join(dialect, urls[ASKERS.index(dialect)]) as asker:
                yield Stand(app, fake, asker, bystander, urls[ASKERS.index(dialect)])


def dropped(app: App) -> int:
    """Return the backend's messages that were dropped, without gaps, which the backend did not send."""
    faults = sum(n for name, n in app.ledger.counters.items() if name.startswith("faults_"))
    return faults + sum(entry.count for entry in app.ledger.entries() if not entry.target and entry.kind != "Gap")


async def sends(fake: FakeCodewhale, row: Row) -> None:
    for said in row.say:
        if said == HANGS_UP:
            fake.hang_up()
        elif isinstance(said, dict) and said.get("id") == "$id":
            message = {"jsonrpc": "2.0"} | said | {"id": fake.asked}
            if said.get("result") == "$accepted":
                events = message.pop("events", [])
                message["result"] = accepted(fake.thread, events=events)
            await fake.say(message)
        else:
            await fake.say(said)


async def until_dropped(at: Stand, count: int) -> None:
    """Wait until the gateway has counted so many dropped messages."""
    await until(lambda: dropped(at.app) >= count)


async def goes_on(at: Stand, row: Row, before: int) -> None:
    """Run another turn of the same client and one of the bystander; return the counts so far."""
    if row in LOST and isinstance(at.asker.client, SmoothClient):
        at.asker.client.oracle.forgotten = True
    seen = await at.asker.turn("and now?")
    told, _, answer = seen.text.rpartition("\n\n")
    assert (answer, seen.end) == ("Well.", "completed")
    assert told == (f"[{FORGOTTEN}]" if row in LOST and isinstance(at.asker.client, SmoothClient) else "")
    assert [f["type"] for f in at.bystander.client.frames] == ["immediate_response"], "it was told nothing"
    assert (await at.bystander.turn("and I?")).text == "Well."
    assert row.counted == -1 or dropped(at.app) - before == row.counted, at.app.ledger.entries()


@pytest.mark.parametrize("dialect", ASKERS)
@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in [*ENDS, *LOST]])
async def test_a_turn_ends_once_whatever_the_server_sends(row: Row, dialect: str, tmp_path: Path) -> None:
    async with stand(dialect, tmp_path) as at:
        await at.asker.begin("hold", tokens=0)
        await at.fake.holds()
        before = dropped(at.app)
        await sends(at.fake, row)
        seen = await at.asker.finish()
        assert (seen.text, seen.end) == (row.text, row.end)
        await goes_on(at, row, before)
        assert at.fake.connections == 2 + (row in LOST)


@pytest.mark.parametrize("dialect", ASKERS)
async def test_unreadable_lines_and_unexpected_answers_do_not_affect_others(dialect: str, tmp_path: Path) -> None:
    async with stand(dialect, tmp_path) as at:
        for row in COSTS_ITSELF:
            await at.asker.begin("hold", tokens=0)
            await at.fake.holds()
            before = dropped(at.app)
            await sends(at.fake, row)
            await sends(at.fake, ENDS[0])
            seen = await at.asker.finish()
            assert (seen.text, seen.end) == ("ab", "completed"), row.name
            assert row.counted == -1 or dropped(at.app) - before == row.counted, (row.name, at.app.ledger.entries())
            at.fake.asked = None
        for row in IDLE:
            before = dropped(at.app)
            await sends(at.fake, row)
            await until_dropped(at, before + row.counted)  # a line of the server has no order with one of a client
            seen = await at.asker.turn("next")
            assert (seen.text, seen.end) == ("Well.", "completed"), row.name
            assert row.counted == -1 or dropped(at.app) - before == row.counted, (row.name, at.app.ledger.entries())
        await goes_on(at, Row(name="", say=()), dropped(at.app))
        assert at.fake.connections == 2


@pytest.mark.parametrize("can", [None, ()], ids=["refused", "never told"])
@pytest.mark.parametrize("dialect", ASKERS)
async def test_a_codewhale_without_capabilities_is_treated_as_the_current_generation(
    dialect: str, can: Any, tmp_path: Path
) -> None:
    async with stand(dialect, tmp_path, can) as at:
        assert (await at.asker.turn("Hi")).text == "Well."
        await at.asker.begin("hold", tokens=0)
        await at.fake.holds()
        await at.asker.cancel()
        await at.fake.interrupted()
        await at.fake.say(START, delta("a"), END)
        await at.fake.answer(error={"code": -32603, "message": "turn interrupted", "data": None})
        await at.fake.say({"id": at.fake.interrupts[0], "result": {"thread_id": at.fake.thread, "interrupted": True}})
        seen = await at.asker.finish()
        assert (seen.text, seen.end) == ("a", "cancelled")
        await goes_on(at, Row(name="", say=()), dropped(at.app))


OLD_LINES = (bare("start", "t:4"), bare("end", "t:4"))
"""The hook mirror of a message: no text (docs/dialects/codewhale.md, section 5)."""

OLD_EVENTS = [event("response_start"), event("response_delta", delta="queued"), event("response_end")]


@pytest.mark.parametrize("dialect", ASKERS)
async def test_the_text_of_an_old_release_comes_from_its_result_and_hooks_are_not_counted_twice(
    dialect: str, tmp_path: Path
) -> None:
    async with stand(dialect, tmp_path, methods(SEED)) as at:
        for number in range(2):
            await at.asker.begin("hold", tokens=0)
            await at.fake.holds()
            before = dropped(at.app)
            old = {"thread_id": at.fake.thread, "status": "accepted", "threads": [], "events": OLD_EVENTS, "data": {}}
            await at.fake.say(*OLD_LINES)
            await at.fake.answer(result=old)
            seen = await at.asker.finish()
            assert (seen.text, seen.end) == ("queued", "completed"), number
            assert dropped(at.app) == before
            at.fake.asked = None


@pytest.mark.parametrize("dialect", ASKERS)
async def test_a_turn_that_an_old_release_cannot_interrupt_ends_for_clients_and_stays_busy(
    dialect: str, tmp_path: Path
) -> None:
    """The gateway ends the turn itself (docs/translation.md, rule 3.4)."""
    async with stand(dialect, tmp_path, methods(SEED)) as at:
        async with asyncio.TaskGroup() as group:
            group.create_task(at.asker.begin("hold", tokens=1))
            await at.fake.holds()
            await at.fake.say(START, delta("a"))
        await at.asker.cancel()
        seen = await at.asker.finish()
        assert (seen.text, seen.end) == ("a", "cancelled")
        assert await at.asker.refused("too early") == parts(dialect).busy
        assert at.fake.interrupts == []
        await at.fake.say(delta("b"), END)
        await at.fake.answer(result=accepted(at.fake.thread))
        await goes_on(at, Row(name="", say=(), counted=-1), 0)
