"""Malformed input of codewhale clients, with the gateway as their server
(docs/dialects/codewhale.md, sections 1.1 to 1.4 and 2).

The tested process is the one that clients spawn, on its real pipes, with a demo pod behind it. A pod client checks that
none of the input reaches the pod. One process gets every line that it survives, and answers each line in turn. The
expected answer is the captured one of the real server, else that of the page. Deliberate differences are marked.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from dragoman.gateway.demo.backend import demo_backend
from dragoman.gateway.endpoint import parse
from dragoman.mappings.jsonrpc import PENDING_MAX
from tests.data_files import vectors
from tests.mappings.codewhale.data import CAPTURES, captured
from tests.pairs.codewhale_client import CodewhaleClient
from tests.pairs.gateway import serving
from tests.pairs.pod_client import PodClient

DEADLINE = 40.0  # seconds for a whole table
HEALTH = {"status": "ok", "service": "deepseek-app-server", "transport": "stdio"}
GHOST = "thread-ghost"
MAX_MESSAGE = 16 * 1024 * 1024  # ours, by default


class Row(Struct, frozen=True):
    """A line and its answer, None if a server sends none; `name` begins with a section of
    docs/dialects/codewhale.md.
    """

    name: str
    line: bytes
    answer: dict[str, Any] | None


def answered(result: Any, id: Any = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": result}


def refused(code: int, message: Any, id: Any = 1, data: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message, "data": data}}


def row(name: str, line: str | bytes, answer: dict[str, Any] | None) -> Row:
    return Row(name, line.encode() if isinstance(line, str) else line, answer)


def asked(method: str, params: Any = ...) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method} | ({} if params is ... else {"params": params}))


def params(method: str, said: Any, text: str) -> Row:
    """Return wrong params, and the text of their error."""
    return row(f"1.2: {method} with {said!r}", asked(method, said), refused(-32602, text))


def healthy(name: str, line: str, id: Any) -> Row:
    return row(name, line, answered(HEALTH, id))


def garbled(name: str, line: str | bytes, why: str = "") -> Row:
    """Return the row of a line that is no request (docs/dialects/codewhale.md, section 1.2)."""
    prefix = f"invalid json: {why}"
    return row(name, line, refused(-32700, lambda text: text.startswith(prefix), None))


def outdated(name: str, line: str, id: Any = 1) -> Row:
    return row(name, line, refused(-32600, "jsonrpc version must be 2.0", id))


def thread(status: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"thread_id": GHOST, "status": status, "threads": [], "events": [], "data": data}


UNREADABLE = [
    garbled("1: not JSON", "not json"),
    garbled("1: half an object", '{"id":1,"method":"healthz"'),
    garbled("1.1: two values on one line", '{"id":1,"method":"healthz"}{"id":2,"method":"healthz"}'),
    garbled("1.1: bytes behind a request", '{"id":1,"method":"healthz"} x'),
    garbled("1: a BOM", b'\xef\xbb\xbf{"id":1,"method":"healthz"}'),
    garbled("1: an unpaired surrogate", '{"id":1,"method":"thread/read","params":{"thread_id":"\\ud800"}}'),
    garbled("1: a control character in a string", b'{"id":"\x01","method":"healthz"}'),
    garbled("1: NUL", b'\x00{"id":1,"method":"healthz"}'),
    garbled("1: nested 200 deep", '{"id":1,"method":"healthz","params":' + "[" * 200 + "]" * 200 + "}"),
    garbled("1: nested 100,000 deep", "[" * 100_000 + "]" * 100_000),
    garbled("1.1: a number that is none", '{"id":01,"method":"healthz"}'),
    garbled("1.1: a number that nothing holds", '{"id":1e400,"method":"healthz"}'),
    garbled("1.1: NaN", '{"id":NaN,"method":"healthz"}'),
    garbled("1.1: no method", '{"jsonrpc":"2.0","id":1,"params":{}}', "missing field `method`"),
    garbled("1.1: an error", '{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}', "missing field `method`"),
    garbled("7: an Envelope", '{"request_id":"r","thread_id":"t","body":{}}', "missing field `method`"),
    garbled("1.1: an old version without a method", '{"jsonrpc":"1.0","id":1}', "missing field `method`"),
    *[garbled(f"1.1: the method {text}", f'{{"id":1,"method":{text}}}') for text in ("7", "null", "[]", "{}", "true")],
    *[garbled(f"1.1: the version {v}", f'{{"jsonrpc":{v},"id":1,"method":"healthz"}}') for v in ("2.0", "2", "[]")],
    *[
        garbled(f"1.1: {name} twice", line, f"duplicate field `{name}`")
        for name, line in {
            "jsonrpc": '{"jsonrpc":"2.0","jsonrpc":"2.0","method":"healthz"}',
            "params": '{"method":"healthz","params":{},"params":{}}',
            "thread_id": asked("thread/read", {"thread_id": "a"}).replace('"a"', '"a","thread_id":"b"'),
            "kind": asked("thread/request", {"kind": "list"}).replace('"list"', '"list","kind":"create"'),
            # A codewhale minds known members only; docs/design.md, section 4: commands are checked for duplicate keys.
            "x": '{"id":1,"method":"healthz","x":1,"x":2}',
        }.items()
    ],
    garbled("1.1: a batch of two", '[{"id":1,"method":"healthz"},{"id":2,"method":"healthz"}]', "invalid type: map"),
    garbled("1.1: a batch of none", "[]", "invalid length 0"),
    garbled("1.1: too long an array", '["2.0",1,"healthz",null,5]'),
    garbled("1.1: an array with a version of a wrong type", '[2,1,"healthz",null]'),
    # A codewhale has no limit; docs/design.md, section 6: what is over ours costs the one message.
    garbled("1: a line over max_message", "x" * (MAX_MESSAGE + 1)),
]

READABLE = [
    row("1: a blank line", "", None),
    row("1: a line of blanks", " \t ", None),
    row("1: a lone CR", "\r", None),
    healthy("1: CRLF", '{"id":1,"method":"healthz"}\r', 1),
    healthy("1: blanks around", ' \t{ "id" : 1 , "method" : "healthz" } ', 1),
    healthy("1.1: no version", '{"id":1,"method":"healthz"}', 1),
    healthy("1.1: a version that is null", '{"jsonrpc":null,"id":1,"method":"healthz"}', 1),
    healthy("1.1: no id", '{"method":"healthz"}', None),
    healthy("1.1: an alias", '{"id":1,"method":"app/healthz"}', 1),
    healthy("1.1: an unknown member", '{"id":1,"method":"healthz","extra":{"a":[1]}}', 1),
    healthy("2: params that are ignored", '{"id":1,"method":"healthz","params":7}', 1),
    healthy("1.1: members in any order", '{"params":null,"method":"healthz","id":1,"jsonrpc":"2.0"}', 1),
    healthy("1.1: an array", '["2.0",1,"healthz",null]', 1),
    healthy("1.1: an array without a version", '[null,1,"healthz",null]', 1),
    healthy("1: a line of 1 MB", '{"id":1,"method":"healthz","x":"' + "x" * 1_000_000 + '"}', 1),
    *[
        healthy(f"1.1: the id {text}", f'{{"id":{text},"method":"healthz"}}', json.loads(text))
        for text in (
            "null",
            "true",
            "0",
            "-5",
            "1.0",
            "18446744073709551615",
            "-9223372036854775808",
            '""',
            '"1"',
            '"null"',
            '"{}"',
            "[]",
            "{}",
            '{"b":[1,null],"a":{"c":"\\u00e9"}}',
            '"\\n\\u0000"',
            '"木"',
        )
    ],
    healthy("1.1: above 64 bits", '{"id":12345678901234567890123,"method":"healthz"}', 1.2345678901234568e22),
    *[
        outdated(f"1.1: the version {v!r}", json.dumps({"jsonrpc": v, "id": 1, "method": "healthz"}))
        for v in ("1.0", "2", "2.0 ", "", "two")
    ],
    outdated("1.2: an old version and no id", '{"jsonrpc":"1.0","method":"healthz"}', None),
    outdated("1.2: an old version of an unknown method", '{"jsonrpc":"1.0","id":1,"method":"nope"}'),
    outdated("1.2: an old version in an array", '["1.0",1,"healthz",null]'),
]

PARAMS = [
    *[
        row(f"1.2: {line['line'][:80]} ({number})", line["line"], refused(line["code"], line["message"], line["id"]))
        for number, line in enumerate(vectors("codewhale_refusals"))
    ],
    *[
        params(alias, {}, "missing field `thread_id`")
        for alias in ("thread/set-name", "thread/goal_set", "thread/goal-set", "thread/goal-clear")
    ],
    params("thread/list", {"limit": 1 << 64}, "invalid type: floating point `1.8446744073709552e+19`, expected usize"),
    params("thread/list", [True, 5, 7], "invalid length 3, expected fewer elements in array"),
    params("thread/read", ["a", "b"], "invalid length 2, expected fewer elements in array"),
    params("thread/read", [7], "invalid type: integer `7`, expected a string"),
    *[
        params("prompt/run", {"prompt": "p", name: value}, f"invalid value: integer `{value}`, expected a nonzero u32")
        for name in ("maxOutputTokens", "max_output_tokens")
        for value in (0, 1 << 32)
    ],
]
"""Requests with wrong params; a real codewhale 0.10.2 answered the first ones."""

GONE = {"error": "thread_not_found", "thread_id": GHOST}
MISSING = thread("missing", {"error": "thread not found"})

UNKNOWN = [
    *[
        row(f"1.2: {m}", asked(m, {"thread_id": GHOST}), refused(-32004, f"thread not found: {GHOST}", data=GONE))
        for m in ("thread/resume", "thread/fork")
    ],
    *[
        row(f"10: {kind}", asked("thread/request", {"kind": kind, "thread_id": GHOST}), answered(MISSING))
        for kind in ("resume", "fork")
    ],
    *[
        row(f"2: {method} of an unknown thread", asked(method, {"thread_id": GHOST, **more}), answered(result))
        for method, more, result in (
            ("thread/read", {}, thread("ok", {"history": [], "checkpoint": None, "goal": None})),
            ("thread/set_name", {"name": "x"}, thread("ok", {})),
            ("thread/archive", {}, thread("archived", {})),
            ("thread/unarchive", {}, thread("unarchived", {})),
            ("thread/goal/set", {"objective": "x"}, MISSING),
            ("thread/goal/get", {}, thread("ok", {"goal": None})),
            ("thread/goal/clear", {}, thread("empty", {"cleared": False})),
            ("thread/interrupt", {}, {"thread_id": GHOST, "interrupted": False}),
        )
    ],
    row(
        "2: progress of an unknown goal",
        asked("thread/request", {"kind": "goal_record_progress", "thread_id": GHOST}),
        answered(thread("missing", {"error": "thread or goal not found"})),
    ),
    row(
        "3: a prompt in an unknown thread",
        asked("prompt/run", {"prompt": "x", "thread_id": GHOST}),
        refused(-32603, f"failed to query thread current leaf id for thread {GHOST}"),
    ),
    # A real 0.9.10 accepts a message in any thread (section 3); the gateway has no session of that name to say it in.
    # So it refuses the message as a 0.10.2 does.
    *[
        row(
            f"12: {method} in an unknown thread",
            asked(method, {"kind": "message", "thread_id": GHOST, "input": "x"}),
            refused(-32004, f"thread not found: {GHOST}", data=GONE),
        )
        for method in ("thread/message", "thread/request")
    ],
    # docs/translation.md, rule 3.2: what this backend has no word for.
    row(
        "3.2: a prompt",
        asked("prompt/run", {"prompt": "x"}),
        refused(-32601, "unsupported method: prompt/run: pods run no prompt outside of their conversation"),
    ),
    *[
        row(f"3.2: {m}", asked(m, said), answered({"ok": False, "data": {**said, "error": str}, "events": []}))
        for m, said in (
            ("app/models", {}),
            ("app/config/list", {}),
            ("app/config/reload", {}),
            ("app/config/get", {"key": "k"}),
            ("app/config/set", {"key": "k", "value": "v"}),
            ("app/config/unset", {"key": "k"}),
        )
    ],
]

SEEN = "09-parse-errors"
"""The capture of what a real server answered to what is wrong."""


def _seen() -> list[Row]:
    """Return every captured request with its real answer; of a parse error only the beginning of the text."""
    rows: list[Row] = []
    for _, way, line in captured(next(path for path in CAPTURES if path.stem == SEEN)):
        if way == "c2s":
            rows.append(row(f"captured {len(rows)}: {line[:40]!r}", line, None))
        else:
            answer = json.loads(line)
            if answer.get("error", {}).get("code") == -32700:
                answer["error"]["message"] = lambda text: text.startswith("invalid json: ")
            rows[-1] = Row(rows[-1].name, rows[-1].line, answer)
    return rows


ROWS = [*_seen(), *UNREADABLE, *READABLE, *PARAMS, *UNKNOWN]


def spawn(upstream: str) -> list[str]:
    return [sys.executable, "-m", "dragoman", "bridge", "codewhale+stdio:", upstream]


@asynccontextmanager
async def watched(folder: Path) -> AsyncIterator[tuple[str, PodClient]]:
    """Run a demo pod with a bystander."""
    upstream = f"pod+unix:{folder}/sock"
    async with serving(demo_backend(parse(upstream))), PodClient.connected(f"{folder}/sock") as bystander:
        yield upstream, bystander


async def conversation(upstream: str, said: bytes) -> bytes:
    """Return the output of a process for this input and the end of its stdin; it must exit with 0."""
    process = await asyncio.create_subprocess_exec(
        *spawn(upstream), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    async with asyncio.timeout(DEADLINE):
        out, _ = await process.communicate(said)
    assert process.returncode == 0
    return out


def told(out: bytes) -> list[Any]:
    return [json.loads(line) for line in out.splitlines()]


async def test_every_malformed_line_is_answered_in_order_to_its_sender_alone(
    tmp_path: Path,
) -> None:
    async with watched(tmp_path) as (upstream, bystander):
        said = b"".join(row.line + b"\n" for row in ROWS)
        out = await conversation(upstream, said)
        assert bystander.names() == ["snapshot"]
        await bystander.turn("retry")
    lines = out.split(b"\n")
    assert lines.pop() == b""
    due = [row for row in ROWS if row.answer is not None]
    wrong = []
    for answer, one in zip(map(json.loads, lines), due, strict=False):
        if not same(answer, one.answer):
            wrong.append(f"{one.name}\n  told     {answer}\n  expected {one.answer}")
    assert not wrong, "\n".join(wrong)
    assert len(lines) == len(due)
    assert [line.decode() for line in lines] == [
        json.dumps(json.loads(line), ensure_ascii=False, separators=(",", ":")) for line in lines
    ], "a client may grep for compact substrings"


def same(told: Any, expected: Any) -> bool:
    """Return True if both values are identical, in the same order: 1, 1.0 and true are three different values."""
    if isinstance(expected, dict):
        exact = isinstance(told, dict) and list(told) == list(expected)
        return exact and all(same(told[key], value) for key, value in expected.items())
    if isinstance(expected, list):
        return isinstance(told, list) and len(told) == len(expected) and all(map(same, told, expected))
    if expected is str:
        return isinstance(told, str) and bool(told)
    return bool(expected(told)) if callable(expected) else (type(told), told) == (type(expected), expected)


# -- while a turn runs (section 1.4), and at the end (section 1) -------------------------------------


async def test_requests_during_a_message_wait_in_order_and_an_interrupt_acts_at_once(
    tmp_path: Path,
) -> None:
    async with watched(tmp_path) as (upstream, bystander), CodewhaleClient.spawned(spawn(upstream)) as client:
        first = await client.say("slow please")
        await client.until(lambda: len(client.text()) > 4)
        await client.send("healthz")
        await client.garble(b'{"jsonrpc":"2.0","id":"bad')
        await client.send("nope/x")
        await client.send("thread/interrupt", thread_id=GHOST)
        await client.send("thread/message", thread_id=client.thread, input="retry")
        await client.answer(await client.send("thread/interrupt", thread_id=client.thread))
        await client.answer(await client.send("thread/interrupt", thread_id=client.thread))
        answers = [line for line in client.lines if "id" in line][1:]
        assert same(answers[0], refused(-32603, "turn interrupted", first))
        assert same(answers[1], answered(HEALTH, first + 1))
        assert answers[2]["error"]["code"] == -32700
        assert same(answers[3], refused(-32601, "unsupported method: nope/x", first + 2))
        assert same(answers[4], answered({"thread_id": GHOST, "interrupted": False}, first + 3))
        assert answers[5]["result"]["status"] == "accepted", "executed when its turn came, and not interrupted"
        assert same(answers[6], answered({"thread_id": client.thread, "interrupted": True}, first + 5))
        assert same(answers[7], answered({"thread_id": client.thread, "interrupted": False}, first + 6))
        assert client.text().endswith("The second try worked.")
        await bystander.until(lambda: "run_end" in bystander.names())


async def test_a_message_sent_by_thread_request_is_not_interrupted(tmp_path: Path) -> None:
    """Stdin is not read while a message of `thread/request` runs (docs/dialects/codewhale.md, section 1.4)."""
    async with watched(tmp_path) as (upstream, _), CodewhaleClient.spawned(spawn(upstream)) as client:
        said = await client.send("thread/request", kind="message", thread_id=client.thread, input="count 2000")
        late = await client.send("thread/interrupt", thread_id=client.thread)
        assert same((await client.answer(late))["result"], {"thread_id": client.thread, "interrupted": False})
        assert (await client.answer(said))["result"]["status"] == "accepted"
        assert client.text() == "".join(f"{n} " for n in range(2000))


async def test_shutdown_interrupts_the_turn_is_answered_after_it_and_is_the_last_request_read(tmp_path: Path) -> None:
    async with watched(tmp_path) as (upstream, bystander), CodewhaleClient.spawned(spawn(upstream)) as client:
        said = await client.say("wait")
        asked = await client.send("healthz")
        last = await client.send("shutdown")
        await client.garble(b"never read")
        assert same(await client.answer(last), answered({"ok": True, "status": "stopped"}, last))
        assert [line["id"] for line in client.lines if "id" in line][1:] == [said, asked, last]
        assert same(await client.answer(said), refused(-32603, "turn interrupted", said))
        await bystander.until(lambda: ("status", {"status": "idle"}) in bystander.events)


async def test_an_unterminated_last_line_is_a_request_only_if_it_is_complete(tmp_path: Path) -> None:
    async with watched(tmp_path) as (upstream, _):
        whole, half = await asyncio.gather(
            conversation(upstream, b'{"id":1,"method":"healthz"}'),
            conversation(upstream, b'{"id":1,"method":"healthz"}\n{"id":2,"meth'),
        )
        assert same(told(whole), [answered(HEALTH)])
        assert same(told(half)[0], answered(HEALTH))
        assert [line["error"]["code"] for line in told(half)[1:]] == [-32700]


async def test_a_client_that_floods_requests_during_a_turn_is_answered_and_disconnected(tmp_path: Path) -> None:
    """A codewhale keeps all requests. Every queue of ours is bounded, and nothing is lost in silence (docs/design.md,
    section 6).
    """
    async with watched(tmp_path) as (upstream, bystander):
        process = await asyncio.create_subprocess_exec(
            *spawn(upstream), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert process.stdin is not None
        assert process.stdout is not None
        async with asyncio.timeout(DEADLINE):
            process.stdin.write(asked("thread/start").encode() + b"\n")
            opened = json.loads(await process.stdout.readline())["result"]["thread_id"]
            message = asked("thread/message", {"thread_id": opened, "input": "wait"})
            process.stdin.write("\n".join([message, *[asked("healthz")] * PENDING_MAX, ""]).encode())
            errors = [line["error"] for line in told(await process.stdout.read())]
            assert await process.wait() == 1
        assert len(errors) == 1 + PENDING_MAX
        assert {error["code"] for error in errors} == {-32603}
        await bystander.until(lambda: "user_message" in bystander.names())
        await bystander.send("cancel")  # or the pod would wait for it
