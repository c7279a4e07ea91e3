"""Apps of a recording's own: wrong files and endpoints are refused before anything runs (tests/pairs runs them)."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.gateway.endpoint import parse
from dragoman.gateway.recording.format import RecordingError
from dragoman.gateway.replay.standalone import drive, driven_play, replaying
from dragoman.mappings.errors import ConfigError
from tests.gateway.replay.recording_builder import RecordingBuilder


def test_a_recording_is_served_with_the_options_that_were_given(tmp_path: Path) -> None:
    path = RecordingBuilder().turn("one").write(tmp_path)
    app = replaying(path, (parse("smooth+ws://127.0.0.1:0/ws"),), speed="instant", mode="")
    (route,) = app.config.routes
    assert str(route.upstream) == f"replay+file:{path}?speed=instant"


def test_a_name_with_a_question_mark_is_a_name(tmp_path: Path) -> None:
    path = RecordingBuilder().turn("one").write(tmp_path, "what?.jsonl")
    replaying(path, (parse("smooth+ws://127.0.0.1:0/ws"),))


def test_wrong_options_are_refused(tmp_path: Path) -> None:
    path = RecordingBuilder().turn("one").write(tmp_path)
    with pytest.raises(ConfigError, match="write real, instant"):
        replaying(path, (parse("smooth+ws://127.0.0.1:0/ws"),), speed="fast")


def test_what_is_no_recording_cannot_be_driven(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("no")
    with pytest.raises(RecordingError, match="is no recording"):
        driven_play(tmp_path / "a")


async def test_what_cannot_be_dialled_is_refused(tmp_path: Path) -> None:
    play = driven_play(RecordingBuilder().turn("one").write(tmp_path))
    with pytest.raises(ConfigError, match="cannot connect to this"):
        await drive(play, parse("smooth+unix:/x"))
