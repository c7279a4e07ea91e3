from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from dragoman.gateway import registry
from dragoman.gateway.recording.captures import Capture, ImportedCapture
from dragoman.gateway.recording.format import CommandLine, EventLine, FrameLine, RecordingError, decode_header, encode
from dragoman.gateway.recording.show.compare import ComparedTurn, turns
from dragoman.mappings.canonical.commands import SubmitInput
from tests.data_files import DATA, captures
from tests.shared import needs_shared

OURS = [path for dialect in ("codewhale", "pando", "pod") for path in captures(dialect)]
KNOWN = [*OURS, *captures("smooth")]


def dialect_of(path: Path) -> str:
    return "smooth" if path.parent.name == "captures" else path.parent.name


def imported(path: Path, dialect: str = "", session: str = "") -> ImportedCapture:
    return ImportedCapture(Capture(path), registry.dialect(dialect or dialect_of(path)), session)


def conversation(lines: ImportedCapture) -> list[ComparedTurn]:
    return list(turns(line for line in lines if isinstance(line, EventLine) and line.logged))


def told(name: str) -> list[ComparedTurn]:
    (path,) = [path for path in KNOWN if f"{path.parent.name}/{path.name}".startswith(name)]
    return conversation(imported(path))


def words(turn: ComparedTurn) -> list[tuple[str, str]]:
    return [(block.what, block.text) for block in turn.blocks]


def what(raw: dict[str, Any]) -> Any:
    """Return the frame in a line of a capture, or None."""
    return raw["frames"] if "frames" in raw else raw.get("frame")


def kept(line: FrameLine) -> Any:
    return [part.text for part in line.parts] if line.parts is not None else line.text


@pytest.mark.parametrize("path", KNOWN, ids=lambda path: f"{dialect_of(path)}-{path.stem}")
def test_every_frame_of_a_capture_is_kept_once_and_in_order(path: Path) -> None:
    lines = imported(path)
    header = lines.header
    said = [raw for raw in map(json.loads, path.read_text("utf-8").rstrip("\n").split("\n")) if what(raw) is not None]
    got = list(lines)
    frames = [line for line in got if isinstance(line, FrameLine)]
    assert [kept(line) for line in frames if line.dir == "send"] == [what(raw) for raw in said if raw["dir"] == "c2s"]
    assert len(frames) <= len(said) <= len(frames) + lines.others
    assert [line.seq for line in got] == list(range(1, len(got) + 1))
    assert [line.t for line in got] == sorted(line.t for line in got)
    assert header.session
    positions = [line.position[1] for line in got if isinstance(line, EventLine) and line.logged]
    assert positions == list(range(len(positions)))


def test_equal_captures_give_equal_recordings() -> None:
    path = next(path for path in OURS if path.name.startswith("04-parallel"))
    assert list(imported(path)) == list(imported(path))


@needs_shared
def test_turns_of_a_smooth_server_are_imported_with_their_inputs() -> None:
    first, second = told("captures/01")
    assert words(first) == [("input", "hello there"), ("text", "Hello from the engine!")]
    assert words(second) == [("input", "and again"), ("text", "Second answer, with an em dash — done.")]
    assert (first.end, second.end) == ("completed", "completed")


@needs_shared
def test_a_given_answer_is_imported_unchanged() -> None:
    (turn,) = told("captures/03")
    assert [block.text for block in turn.blocks if block.what == "answer"] == ["approved"]
    first, second = told("captures/05")
    assert [block.text for block in first.blocks if block.what == "answer"] == ["denied"]
    assert (first.end, second.end) == ("cancelled", "completed")


@needs_shared
def test_an_error_under_the_request_of_a_turn_is_its_end() -> None:
    (turn,) = told("captures/12")
    assert (words(turn), turn.end) == ([("input", "boom")], "failed")


@needs_shared
def test_a_turn_that_waits_for_an_answer_is_lost_with_its_connection() -> None:
    """The answer came over another connection and was refused, and the next input is a turn of its own."""
    first, second = told("captures/21")
    assert [(block.what, block.text) for block in first.blocks if block.what != "tool"] == [
        ("input", "delete 42"),
        ("question", "Approve calling tool 'delete_record'?"),
        ("answer", "denied"),
    ]
    assert (first.end, words(second), second.end) == ("failed", [("input", "hello"), ("text", "after")], "completed")


def test_turns_of_a_pod_are_imported_although_its_clients_send_no_request_ids() -> None:
    assert [turn.end for turn in told("pod/02")] == ["completed"] * 3
    assert [turn.end for turn in told("pod/05")] == ["completed", "rolled_back", "rolled_back", "completed"]
    (turn,) = told("pod/04")
    assert [block.what for block in turn.blocks].count("tool") == 3
    assert all(block.result is not None for block in turn.blocks if block.what == "tool")


def test_turns_of_a_pando_are_those_of_the_session_with_the_most_events() -> None:
    first, second = told("pando/07")
    assert first.blocks[0].text == "Write a long essay about retry storms"
    assert second.blocks[0].text == "Shorter: one sentence. 一句话。"


def test_turns_of_a_codewhale_begin_before_their_answer_at_the_end() -> None:
    first, second, third = told("codewhale/04")
    assert [turn.blocks[0].text for turn in (first, second, third)] == [
        "Write a long essay about retry storms",
        "think first",
        "Shorter: one sentence.",
    ]
    assert [turn.end for turn in (first, second, third)] == ["cancelled", "cancelled", "completed"]
    ends = [(turn.blocks[0].text, turn.end) for turn in told("codewhale/05")]
    assert ends[:4] == [("fail mid", "failed"), ("fail early", "failed"), ("fail quiet", "failed"), ("cut", "failed")]


def test_requests_of_a_second_client_are_kept_and_its_copies_of_events_are_not() -> None:
    path = next(path for path in KNOWN if path.name.startswith("11-second"))
    lines = imported(path)
    header = lines.header
    got = list(lines)
    asked = {line.link for line in got if isinstance(line, CommandLine) and isinstance(line.command, SubmitInput)}
    assert asked == {"a", "b", "up"}
    assert len(conversation(imported(path))) == 2
    assert header.dialects == {"pod": ""}


# -- what is no capture -------------------------------------------------------------------------------------


def written(path: Path, *lines: Any) -> Path:
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


def test_a_line_that_is_no_json_is_reported_with_its_number(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", {"dialect": "pod"}, "no json")
    with pytest.raises(RecordingError, match=r"a\.jsonl:2 is not a line of a capture"):
        imported(path, "pod")


@pytest.mark.parametrize("line", [None, {"t": 1, "dir": "s2c"}, {"t": 1, "dir": "s2c", "text": "hi"}])
def test_a_capture_without_frames_is_reported(tmp_path: Path, line: object) -> None:
    lines = [line] if line is not None else []
    with pytest.raises(RecordingError, match="holds no frames: a line of a capture has `frame` or `frames`"):
        imported(written(tmp_path / "a.jsonl", *lines), "pod")


def test_an_unknown_session_is_reported_with_the_existing_ones() -> None:
    path = next(path for path in OURS if f"{path.parent.name}/{path.name}".startswith("pando/02"))
    known = imported(path).header.session
    with pytest.raises(RecordingError, match=f"has no session 'nope'; its sessions are .*{known}"):
        imported(path, session="nope")


def test_importing_a_recording_is_refused() -> None:
    with pytest.raises(RecordingError, match=r"v4\.jsonl is already a recording, not a capture"):
        imported(DATA / "recordings" / "v4.jsonl", "pod")


def test_a_capture_in_a_named_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jsonl")
    with pytest.raises(RecordingError, match="not a regular file"):
        Capture(tmp_path / "a.jsonl")


@pytest.mark.parametrize("t", [1e300, -1e308])
def test_an_invalid_time_is_reported(t: float, tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"a\.jsonl:1 is not a line of a capture"):
        imported(written(tmp_path / "a.jsonl", {"t": t, "dir": "s2c", "frame": "{}"}), "pod")


def test_the_header_of_a_capture_from_before_1970_can_be_read(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", {"dir": "s2c", "frame": "{}"})
    os.utime(path, (-1, -1))
    assert decode_header(encode(imported(path, "pod").header)).started_at == 0


def test_an_invalid_direction_is_reported(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", {"dir": "up", "frame": "{}"})
    with pytest.raises(RecordingError, match="`dir` is c2s, s2c or pub, not 'up'"):
        imported(path, "pod")


def test_an_unreadable_frame_is_kept_and_reported(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", {"dir": "s2c", "frame": "hello"})
    lines = imported(path, "pod")
    (line,) = lines
    assert isinstance(line, FrameLine)
    assert line.text == "hello"
    (problem,) = lines.problems
    assert problem.startswith(f"{path}:1: not JSON")


# -- connections ----------------------------------------------------------------------------------------------


def sends(conn: str, dir: str, **message: Any) -> dict[str, Any]:
    return {"conn": conn, "dir": dir, "frame": json.dumps(message)}


ASKED = (
    sends("a", "c2s", action="send_message", requestId="m", sessionId="s", message="delete"),
    sends("a", "s2c", type="immediate_response", status=202, message="", data={}, requestId="m", timestamp=1),
    sends(
        "a",
        "s2c",
        type="write_confirmation_required",
        requestId="m",
        timestamp=1,
        data={"requestId": "m", "data": {"toolId": "rm", "actionDescription": "May I?"}},
    ),
)
ANSWER = sends("b", "c2s", action="confirm_tool_action", requestId="k", sessionId="s", approved=True)
REFUSED = sends(
    "b", "s2c", type="error", requestId="k", error={"code": "X", "message": "no"}, data={"requestId": "k"}, timestamp=1
)


def closes(conn: str) -> dict[str, Any]:
    return {"conn": conn, "dir": "c2s", "frame": None, "event": "close"}


@pytest.mark.parametrize(
    ("more", "answer", "end"),
    [
        ((closes("a"),), ["denied"], "failed"),
        ((closes("b"),), [], None),
        ((ANSWER, REFUSED, closes("a")), ["denied"], "failed"),
        ((ANSWER, closes("a")), ["denied"], "failed"),
    ],
)
def test_a_turn_ends_only_with_the_connection_that_began_it(
    tmp_path: Path, more: tuple[dict[str, Any], ...], answer: list[str], end: str | None
) -> None:
    (turn,) = conversation(imported(written(tmp_path / "a.jsonl", *ASKED, *more), "smooth"))
    assert ([block.text for block in turn.blocks if block.what == "answer"], turn.end) == (answer, end)


def test_a_refused_answer_did_not_continue_the_turn(tmp_path: Path) -> None:
    token = sends(
        "a",
        "s2c",
        type="stream_token",
        requestId="m",
        token="well",
        data={"requestId": "m", "token": "well"},
        timestamp=1,
    )
    for more, answer in (((ANSWER, token), "approved"), ((ANSWER, REFUSED, token), "denied")):
        (turn,) = conversation(imported(written(tmp_path / "a.jsonl", *ASKED, *more), "smooth"))
        assert [block.text for block in turn.blocks if block.what == "answer"] == [answer]


def test_a_pods_turn_continues_when_a_client_leaves(tmp_path: Path) -> None:
    status = {"event": "status", "data": {"status": "running"}}
    delta = {"event": "text_delta", "data": {"text": "so"}}
    lines = [sends("a", "s2c", **status), sends("a", "s2c", **delta), closes("a"), sends("a", "s2c", **delta)]
    (turn,) = conversation(imported(written(tmp_path / "a.jsonl", *lines), "pod"))
    assert (words(turn), turn.end) == ([("text", "soso")], None)


# -- times ----------------------------------------------------------------------------------------------------


def times(lines: ImportedCapture) -> list[int]:
    """Return the times of the events of the log, in ns since the recording began."""
    return [
        line.at - lines.header.started_at for line in lines if isinstance(line, EventLine) and line.logged and line.turn
    ]


def test_an_event_of_a_frame_without_a_time_came_at_the_time_of_its_line(tmp_path: Path) -> None:
    delta = {**sends("a", "s2c", event="text_delta", data={"text": "so"}), "t": 1.5}
    assert set(times(imported(written(tmp_path / "a.jsonl", delta), "pod"))) == {1_500_000_000}


def test_an_event_of_a_frame_with_a_time_came_at_that_time(tmp_path: Path) -> None:
    asked, accepted, _question = ASKED
    token = {"requestId": "m", "token": "well", "data": {"requestId": "m", "token": "well"}}
    lines = [
        asked,
        {
            **accepted,
            **sends("a", "s2c", type="immediate_response", status=202, requestId="m", timestamp=2000),
            "t": 0.5,
        },
        {**sends("a", "s2c", type="stream_token", timestamp=2100, **token), "t": 0.7},
    ]
    found = times(imported(written(tmp_path / "a.jsonl", *lines), "smooth"))
    assert (found[0], found[-1]) == (500_000_000, 600_000_000)


def test_each_line_has_the_time_of_its_frame_and_no_time_goes_back(tmp_path: Path) -> None:
    frames = [{**sends("a", "s2c", event="text_delta", data={"text": "so"}), "t": t} for t in (0.5, 1.5, 1.0)]
    lines = list(imported(written(tmp_path / "a.jsonl", *frames), "pod"))
    assert [line.t for line in lines if isinstance(line, FrameLine)] == [500_000, 1_500_000, 1_500_000]
    assert sorted(line.t for line in lines) == [line.t for line in lines]
