"""Every pair recorded: the frames of both sides are with their events, in the file of their session."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dragoman.gateway.endpoint import parse
from dragoman.gateway.recording import index
from dragoman.gateway.recording.format import UP, CommandLine, EventLine, FrameLine, Line
from dragoman.gateway.recording.reader import open_recording
from dragoman.gateway.recording.show.compare import turns
from dragoman.mappings.canonical.commands import SubmitInput
from dragoman.mappings.canonical.events import TextDelta
from dragoman.mappings.dialect import Parts
from tests.conformance.fake_pod import FakePod
from tests.gateway.pod_messages import delta, say
from tests.gateway.test_calls import tokens
from tests.pairs.gateway import SmoothClient
from tests.pairs.recorded import live_demo, record, served
from tests.pairs.table import PAIRS
from tests.pairs.turn_clients import join

SAID = ["Where is my order?", "Fail, please!", "Try again.", "Count slowly.", "Refund it."]


def has_text(line: FrameLine, text: str) -> bool:
    """Return True if a frame contains this text."""
    frame = line.frame()
    whole = b"".join(frame.parts) if isinstance(frame, Parts) else frame or b""
    return text.encode() in whole


def before(lines: list[Line], at: int, dir: str, *, up: bool) -> list[FrameLine]:
    """Return the frames of one side and direction before a line, newest first."""
    frames = (line for line in reversed(lines[:at]) if isinstance(line, FrameLine))
    return [frame for frame in frames if frame.upstream is up and frame.dir == dir]


@pytest.mark.parametrize(("client", "backend"), PAIRS)
async def test_the_recording_of_a_pair_holds_the_frames_of_both_sides(
    client: str, backend: str, tmp_path: Path
) -> None:
    recording = open_recording(await record(client, backend, tmp_path))
    lines = list(recording.lines())
    assert not recording.problems
    assert [line.seq for line in lines] == list(range(1, len(lines) + 1))
    positions = [line.position for line in lines if isinstance(line, EventLine) and line.logged]
    assert positions == [(1, seq) for seq in range(len(positions))]  # each event once, none left out
    said = [block.text for turn in turns(recording.events()) for block in turn.blocks if block.what == "input"]
    assert said[: len(SAID)] == SAID
    told = []
    for at, line in enumerate(lines):
        if (
            isinstance(line, EventLine)
            and isinstance(line.event, TextDelta)
            and line.event.text.isascii()
            and (words := line.event.text.split())
        ):
            told.append(any(has_text(frame, words[0]) for frame in before(lines, at, "receive", up=True)))
        elif isinstance(line, CommandLine) and isinstance(line.command, SubmitInput) and line.link != UP:
            text = line.command.segments[0].text  # type: ignore[union-attr]  # these clients type text
            assert has_text(before(lines, at, "receive", up=False)[0], text)
    assert len(told) > 5
    assert all(told)  # the backend's own words, in frames that stand in this session's file
    assert {frame.dialect for frame in before(lines, len(lines), "receive", up=True)} == {backend}
    assert {frame.dialect for frame in before(lines, len(lines), "receive", up=False)} == {client}


async def test_a_frame_that_waits_for_a_pod_is_recorded_in_the_session_that_it_reaches_and_in_no_other(
    tmp_path: Path,
) -> None:
    for name in ("atlas", "hermes"):
        (tmp_path / "pods" / name).mkdir(parents=True)
    atlas, hermes = (tmp_path / "pods" / name / "sock" for name in ("atlas", "hermes"))
    async with (
        FakePod.serving(atlas) as pod,
        FakePod.serving(hermes),
        served("smooth", parse(f"pod+dir:{tmp_path}/pods"), tmp_path / "gateway", tmp_path / "kept") as url,
        SmoothClient.connected(url) as client,
    ):
        await client.say("hold")
        await pod.holds()
        async with SmoothClient.connected(url) as other:
            await other.ask({"action": "send_message", "sessionId": str(uuid4()), "message": "for nobody"})
            await pod.say(say("turn_start", turn=0), delta("Well."))
            await client.until(lambda: tokens(client) == 1)
    kept = [list(open_recording(path).lines()) for path in (tmp_path / "kept").iterdir()]
    assert len(kept) == 2
    for lines in kept:
        assert isinstance(lines[0], FrameLine)
        assert has_text(lines[0], "create_conversation_session")
        assert not any("for nobody" in str(line) for line in lines)


async def test_recordings_are_written_synced_and_compressed_by_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: dict[str, set[str]] = {}

    def watch(owner: Any, name: str) -> None:
        act = getattr(owner, name)

        def watched(*arguments: Any) -> Any:
            threads.setdefault(name, set()).add(threading.current_thread().name)
            return act(*arguments)

        monkeypatch.setattr(owner, name, watched)

    watch(os, "fsync")
    watch(os, "write")
    watch(index, "compressed")
    kept = tmp_path / "kept"
    async with (
        live_demo("smooth", tmp_path / "backend") as upstream,
        served("smooth", parse(upstream), tmp_path / "gateway", kept, compress=True) as url,
        join("smooth", url) as peer,
    ):
        await peer.turn("Hello")
    assert [path.suffix for path in kept.iterdir()] == [".zst"]
    assert threads == {"fsync": {"recordings"}, "write": {"recordings"}, "compressed": {"recordings"}}
