"""Every pair recorded, and each recording as a backend for clients of all dialects, on real sockets."""

from __future__ import annotations

import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.gateway import registry
from dragoman.gateway.endpoint import Endpoint, parse
from dragoman.gateway.recording.reader import open_recording
from dragoman.mappings.canonical.events import SessionActivated, SessionClosed, SessionUpdated, TurnAccepted
from tests.dialects import parts
from tests.gateway.recording.lines import FROZEN
from tests.pairs.recorded import conversation, record, served, spoken
from tests.pairs.table import DIALECTS, PAIRS, must_see
from tests.pairs.turn_clients import SeenRun, join

ANSWER = (
    "Let me look that up. Order A-1042 has shipped with Kestrel and should reach you on Thursday — 木曜日に届きます。"
)
THOUGHT = "The user asks about an order. I should look it up before I answer."
ANSWERS = "an answer ends"
ENDS = (ANSWERS, "a failure ends", ANSWERS, "a cancel ends", "a question ends", ANSWERS, ANSWERS)
IDS = {"request", "id", "message_id", "question", "at", "turn", "segments"}
OF_THE_CLIENT = (
    TurnAccepted,
    SessionUpdated,
    SessionActivated,
    SessionClosed,
)  # an answer in words is accepted too; lists are told of each change

Made = Callable[[str, str], Awaitable[Path]]


def replayed(recording: Path) -> Endpoint:
    return parse(f"replay+file:{recording}?speed=instant")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Return the recording of a pair, made once for all of its replays."""
    known: dict[tuple[str, str], Path] = {}

    async def get(client: str, backend: str) -> Path:
        if (client, backend) not in known:
            known[client, backend] = await record(client, backend, tmp_path_factory.mktemp(f"{client}-{backend}"))
        return known[client, backend]

    return get


def bare(value: Any) -> Any:
    """Return events without variable parts: ids, times, and how an answer was typed."""
    if isinstance(value, dict):
        return {key: bare(part) for key, part in value.items() if key not in IDS}
    return [bare(part) for part in value] if isinstance(value, list) else value


def log(recording: Path) -> list[Any]:
    """Return the events that all clients were shown."""
    events = [line.event for line in open_recording(recording).events() if not isinstance(line.event, OF_THE_CLIENT)]
    told = [bare(msgspec.json.decode(msgspec.json.encode(event))) for event in events]
    for event in told:
        if event["type"] == "turn_ended":
            event.pop("message", None)
    return told


def check(seen: list[SeenRun], client: str, backend: str) -> None:
    """Assert that a client saw what the table says of its dialect and the backend's."""
    first = seen[0]
    assert (first.text, first.thought if must_see("reasoning", client, backend) == "whole" else THOUGHT) == (
        ANSWER,
        THOUGHT,
    )
    assert first.calls == (["lookup_order"] if must_see("calls", client, backend) == "whole" else [])
    assert [one.end for one in seen] == [must_see(what, client, backend) for what in ENDS]
    assert seen[3].text.startswith("0 1 ")
    assert seen[5].text == " Done: 42.00 EUR are on their way back."


@pytest.mark.parametrize("viewer", DIALECTS)
@pytest.mark.parametrize(("client", "backend"), PAIRS)
async def test_a_recording_of_any_pair_is_a_backend_of_clients_of_any_dialect(
    client: str, backend: str, viewer: str, made: Made, tmp_path: Path
) -> None:
    recording = await made(client, backend)
    async with (
        served(viewer, replayed(recording), tmp_path / "replay", tmp_path / "kept") as url,
        join(viewer, url) as peer,
    ):
        check(await conversation(peer), viewer, backend)
    assert log(spoken(tmp_path / "kept")) == log(recording), "what was said is what was recorded"


@pytest.mark.parametrize("viewer", DIALECTS)
async def test_the_recording_of_a_replay_is_one_that_can_be_replayed(viewer: str, made: Made, tmp_path: Path) -> None:
    """A replay has no dialled backend, so the plan reads the commands of the clients, in their own dialect."""
    recording = await made("smooth", "smooth")
    for again in ("first", "second"):
        folder = tmp_path / again
        folder.mkdir()
        async with (
            served(viewer, replayed(recording), folder / "replay", folder / "kept") as url,
            join(viewer, url) as peer,
        ):
            check(await conversation(peer), viewer, "smooth")
        recording = spoken(folder / "kept")
    assert log(recording) == log(await made("smooth", "smooth"))


@pytest.mark.parametrize("viewer", DIALECTS)
async def test_the_frozen_recording_is_a_backend(viewer: str, tmp_path: Path) -> None:
    async with (
        served(viewer, replayed(FROZEN / "v4.jsonl.zst"), tmp_path / "replay") as url,
        join(viewer, url) as peer,
    ):
        seen = await peer.turn("Grüße 🦀")
        assert (seen.text, seen.end) == ("Two lines.", "completed")
        assert await peer.history() == [("user", "Grüße 🦀"), ("assistant", "Two lines.")]


@pytest.mark.parametrize("viewer", DIALECTS)
async def test_an_unrecorded_input_is_refused_in_the_words_of_the_dialect(viewer: str, tmp_path: Path) -> None:
    async with (
        served(viewer, replayed(FROZEN / "v4.jsonl"), tmp_path / "replay") as url,
        join(viewer, url) as peer,
    ):
        assert await peer.refused("Tell me a joke") == parts(viewer).unrecorded_input
        assert (await peer.turn("Grüße 🦀")).end == "completed", "a refused input is none"


async def test_a_recording_in_parts_is_one_backend(tmp_path: Path) -> None:
    recording = await record("pod", "pod", tmp_path, rotate_bytes=700)
    parts = open_recording(recording).parts
    assert len(parts) > 1
    assert log(recording)[-1]["type"] == "turn_ended"
    async with (
        served("smooth", replayed(parts[-1].path), tmp_path / "replay", tmp_path / "again") as url,
        join("smooth", url) as peer,
    ):
        check(await conversation(peer), "smooth", "pod")
    assert log(spoken(tmp_path / "again")) == log(recording)


# -- no upstream ---------------------------------------------------------------------------------------

WATCHED = {"socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.exec", "os.fork", "os.posix_spawn"}
_listening: list[list[tuple[str, Any]]] = []


@cache
def _hooked() -> None:
    """Add the audit hook once; it cannot be removed."""

    def audit(event: str, args: Any) -> None:
        if event in WATCHED:
            for heard in _listening:
                heard.append((event, args[-1]))

    sys.addaudithook(audit)


@contextmanager
def overheard() -> Iterator[list[tuple[str, Any]]]:
    """Record the addresses that this process connects to, and the programs that it starts."""
    _hooked()
    heard: list[tuple[str, Any]] = []
    _listening.append(heard)
    try:
        yield heard
    finally:
        _listening.remove(heard)


@pytest.mark.parametrize("viewer", ["smooth", "pod", "codewhale"])
async def test_a_strict_replay_connects_to_nobody_and_starts_nothing(
    viewer: str, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The audit hook does not see ZeroMQ's connections; the registry shows that none is requested."""
    recording = await made("pod", "pod")

    def never(*_asked: object) -> None:
        raise AssertionError("a replay has no upstream to connect to")

    monkeypatch.setattr(registry, "connector", never)
    with overheard() as heard:
        async with served(viewer, replayed(recording), tmp_path / "replay") as url, join(viewer, url) as peer:
            await conversation(peer)
            heard[:] = [(what, args) for what, args in heard if not _is_ours(args, url)]
    assert heard == []


def _is_ours(args: Any, url: str) -> bool:
    """Return True if this is the connection of the test's own client."""
    host = args[0] if isinstance(args, tuple) else args
    return str(host) in url and (not isinstance(args, tuple) or str(args[1]) in url)


def test_the_hook_reports_each_connection_and_each_started_program(tmp_path: Path) -> None:
    with overheard() as heard, socket.socket(socket.AF_UNIX) as one, pytest.raises(FileNotFoundError):
        one.connect(str(tmp_path / "nobody"))
    assert [what for what, _ in heard] == ["socket.connect"]
