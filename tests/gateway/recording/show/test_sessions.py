from __future__ import annotations

from pathlib import Path

from msgspec import structs

from dragoman.gateway.recording.reader import sessions_in
from tests.gateway.recording.lines import compressed, in_parts, numbered
from tests.gateway.replay.recording_builder import OF_A_POD, SESSION, RecordingBuilder


def test_a_folder_lists_each_session_once_and_no_frames_of_a_route(tmp_path: Path) -> None:
    RecordingBuilder(structs.replace(OF_A_POD, session="")).frame().write(tmp_path, "route.jsonl")
    RecordingBuilder().turn("one").turn("two").write(tmp_path, "b.jsonl")
    in_parts(tmp_path / "a.jsonl", numbered(30), 10, 20)
    found = sessions_in(tmp_path)
    assert [(session.file, session.session, session.input) for session in found] == [
        ("a.jsonl", "s", ""),
        ("b.jsonl", SESSION, "one"),
    ]


def test_a_compressed_recording_is_listed(tmp_path: Path) -> None:
    compressed(tmp_path / "a.jsonl.zst", numbered(4))
    assert [session.file for session in sessions_in(tmp_path)] == ["a.jsonl.zst"]
