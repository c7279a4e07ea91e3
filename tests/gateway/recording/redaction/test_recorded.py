"""A recording gateway: no secret of its backend or client is in the file, in whatever form it was sent."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs
from structlog.testing import capture_logs

from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config, Limits, Recording, Redact, Route
from dragoman.gateway.demo import script
from dragoman.gateway.demo.backend import demo_backend
from dragoman.gateway.endpoint import parse
from dragoman.gateway.recording.format import EventLine
from dragoman.gateway.recording.index import compressed, read_index
from dragoman.gateway.recording.reader import open_recording
from dragoman.gateway.recording.recordings import FLUSH, redactors
from dragoman.gateway.recording.redaction.redactor import Redactor
from dragoman.gateway.recording.show.cloudevents import cloud_events
from dragoman.gateway.recording.show.page import page
from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.events import (
    TextDelta,
    TextDone,
    ToolCallArguments,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
)
from tests.gateway.recording.lines import frames_of, released
from tests.gateway.recording.recorded_session import RecorderHarness
from tests.gateway.recording.redaction.corpus import SHAPES, escaped
from tests.pairs.gateway import SmoothClient, serving
from tests.pairs.table import DIALECTS, LISTEN

KEY = SHAPES["api_key"]
LIMITS = Limits(drain_deadline=0.5, backoff_first=0.05, backoff_max=0.2)


def said() -> list[Event]:
    """Return a turn that streams the key letter by letter, as text and within escapes of a tool's arguments."""
    arguments = json.dumps({"cmd": "run"})[:-1] + f', "env": "KEY={escaped(KEY)[3]}"}}'
    return [
        *(TextDelta(text=letter) for letter in f"the key is {KEY}."),
        ToolCallStarted(name="shell", call="c"),
        *(ToolCallArguments(call="c", json=arguments[at : at + 7]) for at in range(0, len(arguments), 7)),
        ToolCallArguments(call="c", json=arguments, done=True),
        ToolCallFinished(call="c", name="shell", output=f"using {KEY}\n"),
        TextDelta(text=f"so {KEY} it is"),
        TurnEnded(end="completed"),
    ]


@pytest.mark.parametrize("backend", DIALECTS)
async def test_no_part_of_a_secret_is_in_the_file(tmp_path: Path, backend: str) -> None:
    lines = b"\n".join(map(msgspec.json.encode, said()))
    demo = demo_backend(parse(LISTEN[backend].format(folder=tmp_path)), script.read(lines.decode(), "test"))
    recording = Recording(path=str(tmp_path / "rec"), links="all", compress=False)
    async with serving(demo) as (upstream,):
        route = Route(name="test", listen=(parse("smooth+ws://127.0.0.1:0/ws"),), upstream=parse(upstream))
        app = App(Config(routes=(route,), limits=LIMITS, recording=recording))
        async with serving(app) as (endpoint,), SmoothClient.connected(endpoint.partition("+")[2]) as client:
            await client.turn(f"use {KEY}")
            shown = json.dumps(client.frames)
    assert KEY in shown  # the client was told
    files = list((tmp_path / "rec").iterdir())
    assert files
    for path in files:
        recorded = open_recording(path)
        text = path.read_text()
        html = "".join(page(recorded))
        events = b"".join(cloud_events(recorded.header, recorded.lines(), frames=True)).decode()
        for told in (text, html, events):
            assert not [KEY[at : at + 7] for at in range(8, len(KEY) - 6) if KEY[at : at + 7] in told]
        with path.open("rb") as plain:
            blocks = read_index(io.BytesIO(b"".join(compressed(plain))))
        assert blocks
        assert all(type(number) is int for block in blocks for number in structs.astuple(block))
        for form in escaped(KEY)[3:5]:
            assert form[30:90] not in text
        streamed = "".join(line.event.text for line in recorded.events() if isinstance(line.event, TextDelta))
        assert KEY not in streamed
        by_link: dict[str, str] = {}
        for frame in frames_of(recorded):
            raw = frame.text or "".join(part.text or "" for part in frame.parts or ())
            for token in re.findall(r'"(?:token|text|json)"\s*:\s*"([^"]*)"', raw):
                by_link[frame.link] = by_link.get(frame.link, "") + token
        assert not any(KEY in together for together in by_link.values())


# -- a session ---------------------------------------------------------------------------------------------


def test_held_text_is_written_when_the_session_ends() -> None:
    scene = RecorderHarness()
    for letter in KEY:
        scene.happens(TextDelta(text=letter))
    with capture_logs() as logs:
        scene.recorder.close()
    assert len(scene.disk.lines()) == len(KEY)
    texts = [
        line.event.text
        for line in scene.disk.lines()
        if isinstance(line, EventLine) and isinstance(line.event, TextDelta)
    ]
    assert "".join(texts).startswith("[redacted:api_key:")
    assert scene.ledger.counters["secrets_redacted"] == 1
    (told,) = logs
    assert told["found"] == ["api_key in text_delta.text: 1"]


def test_two_recordings_have_salts_of_their_own_and_those_of_an_installation_one() -> None:
    def marked(make: Callable[[], Any]) -> str:
        redactor = make()
        (line,) = released(redactor, [EventLine(seq=1, t=1, cursor="1:1", event=TextDone(text=f"x {KEY}"))])
        assert isinstance(line, EventLine)
        return str(getattr(line.event, "text", ""))

    own, shared = redactors(Redact()), redactors(Redact(salt="s" * 16))
    assert marked(own) != marked(own)
    assert marked(shared) == marked(shared)


def test_a_redactor_that_fails_ends_the_recording_and_not_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = RecorderHarness()
    scene.happens(TextDone(text=f"x {KEY}"))
    with capture_logs() as logs, monkeypatch.context() as broken:
        broken.setattr(Redactor, "feed", lambda *_: 1 / 0)
        scene.passes(FLUSH)
    assert scene.disk.data == b""
    assert [entry["log_level"] for entry in logs] == ["error", "error"]
    assert scene.ledger.counters["recordings_failed"] == 1
    scene.happens(TextDone(text=f"y {KEY}"))
    scene.passes(31)
    scene.happens(TextDone(text=f"z {KEY}"))
    scene.passes(FLUSH)
    (line,) = scene.disk.lines()
    assert line.redacted
