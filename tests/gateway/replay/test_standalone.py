"""Apps made for a recording: wrong files and endpoints are refused before anything runs (tests/pairs runs them)."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from dragoman.gateway import registry
from dragoman.gateway.endpoint import parse
from dragoman.gateway.recording.reader import open_recording
from dragoman.gateway.replay.driving import DrivingError
from dragoman.gateway.replay.plan import read_plan
from dragoman.gateway.replay.standalone import drive, drive_file, listen_endpoint, replaying, served
from dragoman.mappings.canonical.events import TextDelta
from dragoman.mappings.errors import ConfigError
from tests.gateway.replay.recording_builder import RecordingBuilder


def test_a_recording_is_served_with_the_given_options(tmp_path: Path) -> None:
    path = RecordingBuilder().turn("one").write(tmp_path)
    app = replaying(path, (parse("smooth+ws://127.0.0.1:0/ws"),), speed="instant", mode="")
    (route,) = app.config.routes
    assert str(route.upstream) == f"replay+file:{path}?speed=instant"


def test_a_question_mark_in_a_file_name_begins_no_options(tmp_path: Path) -> None:
    path = RecordingBuilder().turn("one").write(tmp_path, "what?.jsonl")
    (route,) = replaying(path, (parse("smooth+ws://127.0.0.1:0/ws"),)).config.routes
    assert route.upstream.address == str(path)


def test_wrong_options_are_refused(tmp_path: Path) -> None:
    path = RecordingBuilder().turn("one").write(tmp_path)
    with pytest.raises(ConfigError, match="write real, instant"):
        replaying(path, (parse("smooth+ws://127.0.0.1:0/ws"),), speed="fast")


def test_an_endpoint_that_cannot_be_dialled_is_refused(tmp_path: Path) -> None:
    play = read_plan(open_recording(RecordingBuilder().turn("one").write(tmp_path)))
    with pytest.raises(ConfigError, match="cannot connect to this"):
        drive(play, parse("smooth+unix:/x"))


def tape(folder: Path) -> Path:
    return RecordingBuilder().turn("one", TextDelta(text="1")).write(folder)


def test_a_replay_listens_while_its_block_lasts(tmp_path: Path) -> None:
    path = tmp_path / "sock"
    with served(tape(tmp_path), parse(f"pod+unix:{path}")) as replay:
        assert (replay.endpoint, replay.url) == (f"pod+unix:{path}", f"unix:{path}")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            assert client.recv(12).startswith(b'{"event":')
    assert not path.exists()


def test_an_address_in_use_raises_an_error_in_the_caller(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = parse(f"smooth+ws://127.0.0.1:{taken.getsockname()[1]}/ws")
        with pytest.raises(OSError, match="in use"), served(tape(tmp_path), place):
            raise AssertionError("somebody listens there")
    with pytest.raises(ConfigError), served(tmp_path / "none", parse("smooth+ws://127.0.0.1:0/ws")):
        raise AssertionError("there is no such file")


@pytest.mark.parametrize("dialect", registry.OURS)
def test_a_dialect_without_an_address_listens_at_a_free_one(dialect: str, tmp_path: Path) -> None:
    with served(tape(tmp_path), listen_endpoint(dialect, tmp_path)) as replay:
        assert replay.endpoint.startswith(f"{dialect}+")


def test_a_place_that_is_neither_an_endpoint_nor_a_dialect_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="write an endpoint, or one of smooth, pod"):
        listen_endpoint("pud", tmp_path)


def test_a_backend_is_driven_by_the_python_function(tmp_path: Path) -> None:
    recording = tape(tmp_path)
    with served(recording, parse(f"pod+unix:{tmp_path}/sock"), speed="instant") as replay:
        assert drive_file(recording, replay.endpoint).same
        assert [report.outcome for report in replay.reports] == ["exact"]
        assert replay.divergences == []


def test_a_backend_that_cannot_be_driven_raises_an_error_in_the_caller(tmp_path: Path) -> None:
    with pytest.raises(DrivingError, match="opened no session"):
        drive_file(tape(tmp_path), "smooth+ws://127.0.0.1:9/ws", 5)
