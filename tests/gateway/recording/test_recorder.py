from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from dragoman.gateway import registry
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.overload.memory import MemoryBudget
from dragoman.gateway.recording.format import FrameLine, Header, Line
from dragoman.gateway.recording.places import Folder
from dragoman.gateway.recording.reader import open_recording
from dragoman.gateway.recording.recorder import Recorder, Tap
from dragoman.gateway.recording.recordings import Recordings
from dragoman.gateway.recording.session_recorder import SessionRecorder
from dragoman.gateway.recording.writer import Writer
from dragoman.mappings.canonical import Batch, SessionState
from dragoman.mappings.canonical.commands import PauseTurn, SubmitInput
from dragoman.mappings.canonical.events import Pong, Reply, TextDelta, TurnAccepted
from dragoman.mappings.canonical.values import Origin
from dragoman.mappings.dialect import Parts
from tests.gateway.pod_messages import say
from tests.gateway.recording.lines import HEADER, frames_of
from tests.gateway.recording.recorded_session import IN_LOOP, Disk, default_redactor
from tests.gateway.recording.test_calls import recorded
from tests.gateway.test_calls import tokens
from tests.services import never

POD, PANDO = registry.dialect("pod"), registry.dialect("pando")


def _word(line: Line) -> str:
    if isinstance(line, FrameLine):
        return f"{line.link} {'>' if line.dir == 'receive' else '<'} {line.missing or line.text}"
    return f"{line.link or 'log'}: {type(line.item).__name__}"


class RecorderStage:
    def __init__(self, everything: bool = False) -> None:
        self.disk = Disk(Folder(Path("/rec")))
        recordings = Recordings(
            cast("Writer", self.disk),
            IN_LOOP,
            Ledger(),
            MemoryBudget(),
            never,
            redactor=default_redactor,
            everything=everything,
        )
        self.recorder = Recorder(recordings, Header(route=HEADER.route), find_id={"theirs": "b"}.__getitem__)
        self.a = self.recorder.record_session(SessionState(id="a"))
        self.b = self.recorder.record_session(SessionState(id="b"))
        self.client = self.recorder.tap("smooth-1", "smooth")
        self.other = self.recorder.tap("smooth-2", "smooth")

    def sends(self, tap: Tap, text: str, *acts: Callable[[], object]) -> None:
        """Let a link read a frame and act on it."""

        def take(frames: Any) -> None:
            assert list(frames) == [text.encode()]
            for act in acts:
                act()

        if tap.session:
            tap.begin_step([text.encode()])
            take([text.encode()])
            tap.end_step()
        else:
            tap.receive([text.encode()], take)

    def told(self) -> dict[str, list[str]]:
        """Return the lines of each recorded session in words."""
        self.recorder.close()
        return {header.session: [_word(line) for line in lines] for header, lines in self.disk.parts()}


@pytest.fixture
def stage() -> RecorderStage:
    return RecorderStage()


def happens(session: SessionRecorder, *taps: Tap, text: str = "x", begins: str = "") -> None:
    """Deliver these events of a session to these links."""
    events = [TurnAccepted()] if begins else [TextDelta(text=text)]
    origin = Origin(link=begins)
    before = session.batch(Batch(session="", epoch=1, first_seq=0, events=cast("Any", events), turn="t", origin=origin))
    for tap in taps:
        tap.record_frames([text.encode()])
    session.leave(before)


def test_a_client_frame_stands_before_its_command_and_the_events_it_causes(stage: RecorderStage) -> None:
    up = stage.recorder.upstream(POD, "a")
    stage.sends(
        stage.client,
        "go",
        lambda: stage.client.note_command(SubmitInput(segments=())),
        stage.a.enter,
        lambda: up.record_items([SubmitInput(segments=())]),
        lambda: up.record_frames([b"run"]),
        lambda: stage.client.record_frames([b"accepted"]),
    )
    assert stage.told() == {
        "a": ["smooth-1 > go", "smooth-1: SubmitInput", "up: SubmitInput", "up < run", "smooth-1 < accepted"]
    }


def test_a_bad_frame_belongs_to_the_route_and_its_answer_to_the_session_of_the_link() -> None:
    stage = RecorderStage(everything=True)
    stage.client.note_attached("a")
    stage.sends(stage.client, "bad", lambda: stage.client.record_frames([b"error"]))
    assert stage.told() == {"": ["smooth-1 > bad"], "a": ["smooth-1 < error"]}


def test_backend_frames_belong_to_their_session(stage: RecorderStage) -> None:
    up = stage.recorder.upstream(POD, "b")
    stage.sends(up, "delta", lambda: happens(stage.b))
    assert stage.told() == {"b": ["up > delta", "log: TextDelta"]}


def test_frames_of_one_read_on_a_link_of_one_session_are_one_step(stage: RecorderStage) -> None:
    up = stage.recorder.upstream(POD, "a")
    up.begin_step([b"1", b"2"])
    happens(stage.a)
    assert len(stage.a.step) == 2, "it is not over"
    up.end_step()
    assert stage.told() == {"a": ["up > 1", "up > 2", "log: TextDelta"]}


def test_a_frame_that_affects_a_second_session_is_one_step_in_both_recordings(stage: RecorderStage) -> None:
    up = stage.recorder.upstream(POD, "a")
    up.begin_step([b"1"])
    stage.b.enter()
    happens(stage.b)
    up.end_step()
    assert (stage.a.step, stage.b.step) == ([], [])
    assert stage.told() == {"a": ["up > 1"], "b": ["log: TextDelta"]}


def test_on_a_link_of_many_sessions_each_frame_goes_to_the_session_that_it_reaches(stage: RecorderStage) -> None:
    up = stage.recorder.upstream(PANDO, "")
    sessions = {b"1": stage.a, b"2": stage.b}

    def take(frames: Any) -> None:
        (frame,) = frames
        if frame in sessions:
            sessions[frame].enter()
            happens(sessions[frame])

    up.receive([b"1", b"2", b"3"], take)
    assert stage.told() == {
        "a": ["up > 1", "log: TextDelta"],
        "b": ["up > 2", "log: TextDelta"],
        "": ["up > 3"],
    }


def test_a_frame_that_the_translator_keeps_belongs_to_the_session_it_names(stage: RecorderStage) -> None:
    up = stage.recorder.upstream(PANDO, "")
    text = b'{"topic":"llm.token","payload":{"session_id":"theirs","token":"x"}}'
    up.receive([Parts("sub", b"", (b"llm.token\x00" + text,))], lambda _frames: None)
    assert stage.told() == {"b": ["up > None"]}


def test_broadcast_frames_belong_to_the_session_that_sends_them(stage: RecorderStage) -> None:
    for session in (stage.a, stage.b):
        stage.sends(stage.client, "go", lambda: stage.client.note_command(PauseTurn()), session.enter)
    happens(stage.a, stage.client, text="of a")
    stage.client.record_frames([b"heartbeat"])
    told = stage.told()
    assert told["a"][-1] == "smooth-1 < of a"
    assert told["b"][-1] == "smooth-1 < heartbeat"  # of the session that it spoke of last


def test_by_default_only_frames_of_the_client_that_began_the_turn_are_recorded(stage: RecorderStage) -> None:
    for tap in (stage.client, stage.other):
        tap.note_attached("a")
    happens(stage.a, stage.client, stage.other, text="1", begins="smooth-2")
    happens(stage.a, stage.client, stage.other, text="2")
    assert stage.told() == {"a": ["log: TurnAccepted", "smooth-2 < 1", "log: TextDelta", "smooth-2 < 2"]}


def test_frames_with_a_command_are_recorded_for_every_client(stage: RecorderStage) -> None:
    happens(stage.a, begins="smooth-2")
    stage.sends(stage.client, "stop", lambda: stage.client.note_command(PauseTurn()), stage.a.enter)
    assert stage.told()["a"][1:] == ["smooth-1 > stop", "smooth-1: PauseTurn"]


def test_with_links_all_every_client_is_recorded_and_other_frames_go_to_the_route() -> None:
    stage = RecorderStage(everything=True)
    for tap in (stage.client, stage.other):
        tap.note_attached("a")
    happens(stage.a, stage.client, stage.other, text="1")
    new = stage.recorder.tap("smooth-3", "smooth")
    stage.sends(
        new,
        "ping",
        lambda: new.note_command(PauseTurn()),
        lambda: new.record_items([Pong()]),
        lambda: new.record_frames([b"pong"]),
    )
    assert stage.told() == {
        "a": ["log: TextDelta", "smooth-1 < 1", "smooth-2 < 1"],
        "": ["smooth-3 > ping", "smooth-3: PauseTurn", "smooth-3: Pong", "smooth-3 < pong"],
    }


def test_by_default_client_frames_without_a_session_are_not_recorded(stage: RecorderStage) -> None:
    stage.sends(
        stage.client,
        "ping",
        lambda: stage.client.note_command(PauseTurn()),
        lambda: stage.client.record_frames([b"pong"]),
    )
    assert stage.told() == {}


def test_a_postponed_frame_is_recorded_in_the_session_that_its_command_reaches_later(stage: RecorderStage) -> None:
    up, postponed = stage.recorder.upstream(POD, "b"), []

    def wait() -> None:
        stage.client.note_command(SubmitInput(segments=()))
        postponed.append(stage.client.postpone(stage.a.enter))

    stage.sends(stage.client, "go", wait)
    up.begin_step([b"list"])
    postponed[0]()
    up.end_step()
    stage.sends(up, "delta", lambda: happens(stage.b))
    stage.client.record_frames([b"accepted"])
    assert stage.told() == {
        "a": ["smooth-1 > go", "smooth-1: SubmitInput", "smooth-1 < accepted"],
        "b": ["up > list", "up > delta", "log: TextDelta"],
    }


def test_a_postponed_frame_that_reaches_no_session_is_not_recorded_in_the_one_that_acts_next(
    stage: RecorderStage,
) -> None:
    """Its client has left meanwhile, or is refused."""
    up, postponed = stage.recorder.upstream(POD, "b"), []

    def wait() -> None:
        stage.client.note_command(SubmitInput(segments=()))
        postponed.append(stage.client.postpone(lambda: None))

    stage.sends(stage.client, "go", wait)
    up.begin_step([b"list"])
    postponed[0]()
    happens(stage.b)
    up.end_step()
    assert stage.told() == {"b": ["up > list", "log: TextDelta"]}


def test_a_reply_is_recorded_with_its_link(stage: RecorderStage) -> None:
    stage.sends(
        stage.client,
        "pause",
        lambda: stage.client.note_command(PauseTurn()),
        stage.a.enter,
        lambda: stage.client.record_items([Reply(request="r")]),
    )
    assert stage.told()["a"][-1] == "smooth-1: Reply"


def test_links_of_a_closed_session_begin_no_other_recording(stage: RecorderStage) -> None:
    up = stage.recorder.upstream(POD, "a")
    stage.recorder.end_session("a")
    stage.sends(up, "late")
    up.record_frames([b"late"])
    assert stage.told() == {}


async def test_the_frames_of_a_text_that_streams_are_recorded_as_the_client_received_them(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (pod, client):
        await client.say("hold")
        await pod.holds()
        await pod.say(say("turn_start", turn=0))
        for number in range(1, 21):
            await pod.say(say("text_delta", text=f'"{number}" \u00e4\n'))
            await client.until(lambda number=number: tokens(client) == number)
    (path,) = (tmp_path / "rec").glob("*.jsonl")
    sent = [json.loads(line.text or "{}") for line in frames_of(open_recording(path)) if line.dir == "send"]
    received = [frame for frame in client.frames if frame["type"] == "stream_token"]
    assert [frame for frame in sent if frame.get("type") == "stream_token"] == received
    assert len(received) == 20
