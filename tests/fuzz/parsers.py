"""The parsers under fuzz, as functions of bytes that return if the parser reads or refuses them.

Whatever else a parser raises is a bug. `seeds` are real messages from which the fuzzers start.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any

from aiohttp.test_utils import make_mocked_request
from aiohttp.web import HTTPBadRequest
from yarl import URL

from dragoman.adapters.base import PeerFacts
from dragoman.adapters.lines import LineSplitter
from dragoman.gateway import registry
from dragoman.gateway.config.check import check
from dragoman.gateway.config.model import Jwt
from dragoman.gateway.demo import script
from dragoman.gateway.endpoint import parse
from dragoman.gateway.identity.json_web_tokens import JsonWebTokens, KeySet
from dragoman.gateway.identity.principal import Refusal
from dragoman.gateway.observability.trace_context import read_trace
from dragoman.gateway.ops.queries import LossQuery, SessionQuery, parse_query
from dragoman.gateway.recording.captures import Capture, ImportedCapture
from dragoman.gateway.recording.format import LineError, RecordingError, decode_header, decode_line
from dragoman.gateway.recording.index import HEAD, OURS, SKIPPABLE, TAIL, read_index
from dragoman.gateway.recording.reader import Problems, open_part
from dragoman.gateway.transports import pando_project
from dragoman.mappings import rfc3339
from dragoman.mappings.dialect import Frame, Parts
from dragoman.mappings.errors import ConfigError
from tests.data_files import DATA, captures
from tests.fuzz import websocket_client

SMOOTH_SEEDS = (
    {"action": "send_message", "requestId": "r1", "sessionId": "s1", "message": "hello"},
    {"action": "create_conversation_session", "requestId": "r2", "agentId": "a", "supports": ["choice_chips"]},
    {"type": "stream_token", "requestId": "r1", "token": "t", "data": {"requestId": "r1", "token": "t"}},
    {"type": "eventual_response", "requestId": "r1", "status": 200, "data": {"data": {"response": {}}}},
)
SEED_MAX = 4096  # bytes: longer messages only slow the fuzzers down
SEEDS = 150  # of each dialect
MAX_LINE = 1024  # bytes: a sixteenth of the longest line that the tests make


def _clock() -> int:
    return 1_700_000_000_000_000_000


def _server(name: str, data: bytes) -> None:
    """Feed a translator that is a server with the frames of a client."""
    numbers = count(1)
    translator = registry.dialect(name).server(_clock, lambda: f"id-{next(numbers)}")
    translator.opened()
    translator.receive(_frames(name, data, Parts("rpc", b"peer", (b"",))))


def _client(name: str, data: bytes) -> None:
    """Feed a translator that is a client with the frames of a backend."""
    numbers = count(1)
    translator = registry.dialect(name).client(_clock, lambda: f"id-{next(numbers)}", _clock)
    translator.opened()
    translator.receive(_frames(name, data, Parts("rpc", b"", (b"",))))


def _frames(name: str, data: bytes, call: Parts) -> list[Frame]:
    if name != "pando":
        return list(data.split(b"\n"))
    return [
        Parts("pub", b"", (line,)) if b"\0" in line else Parts(call.channel, call.identity, (*call.parts, line))
        for line in data.split(b"\n")
    ]


def _lines(data: bytes) -> None:
    """Split a stream in one piece and byte by byte; the frames must be the same."""
    whole, single = LineSplitter(MAX_LINE), LineSplitter(MAX_LINE)
    expected = [*whole.feed(data), *whole.finish()]
    found = [frame for at in range(len(data)) for frame in single.feed(data[at : at + 1])] + single.finish()
    assert found == expected


def _refusing(read: Callable[[bytes], object], *refusals: type[Exception]) -> Callable[[bytes], None]:
    def parser(data: bytes) -> None:
        with contextlib.suppress(*refusals):
            read(data)

    return parser


def _file(read: Callable[[Path], object], name: str, *refusals: type[Exception]) -> Callable[[bytes], None]:
    def parser(data: bytes) -> None:
        path = _folder() / name
        path.write_bytes(data)
        with contextlib.suppress(*refusals):
            read(path)

    return parser


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="fuzz-"))


def _recording(path: Path) -> list[object]:
    return list(open_part(path).steps(Problems()))


def _index(path: Path) -> object:
    """Read the bytes as the index of a compressed recording."""
    data = path.read_bytes()
    return read_index(io.BytesIO(HEAD.pack(SKIPPABLE, len(data) + TAIL.size) + data + TAIL.pack(len(data), OURS)))


def _capture(path: Path) -> list[object]:
    return list(ImportedCapture(Capture(path), registry.dialect("pod")))


def _registry_of_pandos(path: Path) -> object:
    return pando_project.find_ports("/nowhere", path.parent)


def _token(text: str) -> None:
    """Check a token with our secret, and one whose header names a key of an authority."""
    for tokens in (
        JsonWebTokens(Jwt(secret="s" * 32, audience="a"), None),
        JsonWebTokens(Jwt(audience="a"), KeySet(dict, lambda: 0.0)),
    ):
        header = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
        for token in (text, f"{header}.e30.AA"):
            assert isinstance(tokens.identify(PeerFacts(token=token)), Refusal)


def _keys(data: bytes) -> None:
    KeySet(lambda: json.loads(data), lambda: 0.0).read()


def _query(text: str) -> None:
    """Read the query of a request to the ops port."""
    for wanted in (SessionQuery, LossQuery):
        with contextlib.suppress(HTTPBadRequest):
            parse_query(make_mocked_request("GET", str(URL.build(path="/sessions", query_string=text))), wanted)


def _text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: read(data.decode("utf-8", "replace"))


PARSERS: dict[str, Callable[[bytes], None]] = {
    **{f"{name} frames of a client": partial(_server, name) for name in registry.dialects()},
    **{f"{name} frames of a backend": partial(_client, name) for name in registry.dialects()},
    "lines of a stream": _lines,
    "header of a recording": _refusing(decode_header, RecordingError),
    "line of a recording": _refusing(decode_line, LineError),
    "file of a recording": _file(_recording, "fuzz.jsonl", RecordingError),
    "configuration": _file(check, "fuzz.toml"),
    "endpoint": _refusing(_text(parse), ConfigError),
    "script of the demo backend": _refusing(_text(lambda text: script.read(text, "script")), ConfigError),
    "index of a recording": _file(_index, "fuzz.zst"),
    "capture": _file(_capture, "capture.jsonl", RecordingError),
    "registry of pandos": _file(_registry_of_pandos, "fuzz.json"),
    "trace context": _refusing(_text(lambda text: read_trace({"traceparent": text, "tracestate": text}))),
    "time": _refusing(_text(rfc3339.parse)),
    "JSON Web Token": _refusing(_text(_token)),
    "keys of tokens": _keys,
    "request of a WebSocket client": websocket_client.handshake,
    "frames of a WebSocket client": websocket_client.frames,
    "query of the ops port": _refusing(_text(_query)),
}
"""Name -> a function that raises only if the parser did what it must not."""


@cache
def seeds() -> tuple[bytes, ...]:
    """Return real messages of all dialects, a configuration, a recording and others."""
    found = [json.dumps(message).encode() for message in SMOOTH_SEEDS]
    for folder in ("pod", "pando", "codewhale"):
        found += list(_captured(folder))[:SEEDS]
    found += [line for path in sorted((DATA / "recordings").rglob("*.jsonl")) for line in _short_lines(path)][:SEEDS]
    found += [b"pod+unix:/run/x/sock?session=latest", b"2026-01-02T03:04:05.123456789+01:30"]
    found += [b"limit=5&sort=-memory&state=idle", b"\x81hello\n\x89ping\n\x01he\n\x80llo\n\x88\x03\xe8"]
    found.append((Path(__file__).parents[2] / "config.example.toml").read_bytes())
    return tuple(found)


def _captured(dialect: str) -> Iterator[bytes]:
    known = set()
    for path in captures(dialect):
        for line in path.read_text("utf-8").split("\n"):
            row: dict[str, Any] = json.loads(line) if line else {}
            text = row["frames"][-1] if "frames" in row else row.get("frame") or ""
            kind = text[:40]
            if text and kind not in known and len(text) < SEED_MAX:
                known.add(kind)
                yield text.encode()


def _short_lines(path: Path) -> list[bytes]:
    return [line for line in path.read_bytes().split(b"\n") if 0 < len(line) < SEED_MAX]
