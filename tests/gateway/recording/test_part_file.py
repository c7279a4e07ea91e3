from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from dragoman.gateway.recording import index, reader
from dragoman.gateway.recording.format import RecordingError, encode, packed
from dragoman.gateway.recording.reader import open_recording, recordings_in
from tests.gateway.recording.lines import HEADER, compressed, numbered, raw, written

# -- what is read ---------------------------------------------------------------------------------------


def test_a_plain_and_a_compressed_file_give_the_same_lines(tmp_path: Path) -> None:
    lines = numbered(20_000)
    plain = open_recording(written(tmp_path / "a.jsonl", lines))
    packed = open_recording(compressed(tmp_path / "a.jsonl.zst", lines))
    assert (plain.parts[-1].compressed, packed.parts[-1].compressed) == (False, True)
    assert list(plain.lines()) == list(packed.lines()) == lines


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("count", [0, 1, 30_000])
def test_a_seek_gives_what_filtering_all_lines_would(tmp_path: Path, packed: bool, count: int) -> None:
    lines = numbered(count, text="word " * 6)
    recording = open_recording((compressed if packed else written)(tmp_path / "a", lines))
    at = random.Random(4)
    for seq in {0, 1, 2, count - 1, count, count + 1, *(at.randrange(count + 1) for _ in range(8))}:
        assert next(recording.lines(seq=seq), None) == next((line for line in lines if line.seq >= seq), None)
        t = seq * 5
        assert next(recording.lines(t=t), None) == next((line for line in lines if line.t >= t), None)


@pytest.mark.parametrize("packed", [False, True])
def test_a_seek_does_not_read_what_comes_before(tmp_path: Path, packed: bool) -> None:
    lines = numbered(60_000, text="word " * 12)
    recording = open_recording((compressed if packed else written)(tmp_path / "a", lines))
    seen: list[int] = []
    recording.report_progress(seen.append)
    assert next(recording.lines(seq=50_000)).seq == 50_000
    assert seen[0] > recording.size // 2
    assert len(seen) <= 4


def test_a_last_line_without_a_newline_is_read_if_it_is_whole(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", numbered(4))
    path.write_bytes(path.read_bytes()[:-1])
    recording = open_recording(path)
    assert list(recording.lines()) == numbered(4)
    assert not recording.problems


# -- what cannot be read ----------------------------------------------------------------------------------


def test_every_whole_line_of_a_cut_recording_is_read(tmp_path: Path) -> None:
    lines = numbered(6, text="Grüße 🦀")
    whole = encode(HEADER) + b"\n" + raw(lines)
    begin = len(encode(HEADER)) + 1
    path = tmp_path / "a.jsonl"
    for cut in range(begin, len(whole)):
        path.write_bytes(whole[:cut])
        recording = open_recording(path)
        got = list(recording.lines())
        entire = whole[:cut].count(b"\n") - 1
        assert got[:entire] == lines[:entire]
        assert len(got) - entire == (whole[cut : cut + 1] == b"\n")
        assert recording.problems.torn == (whole[cut - 1 : cut] != b"\n" and whole[cut : cut + 1] != b"\n")


@pytest.mark.parametrize("garbage", [b"\x00" * 5000, b"\x00" * 500 + b"\n\x00", b"\xff\xfe{", b'{"kind":"frame","se'])
def test_garbage_after_the_lines_loses_no_line(tmp_path: Path, garbage: bytes) -> None:
    path = written(tmp_path / "a.jsonl", numbered(50))
    path.write_bytes(path.read_bytes() + garbage)
    recording = open_recording(path)
    assert list(recording.lines()) == numbered(50)
    assert recording.problems.torn
    assert "torn" in str(recording.problems)


def test_a_damaged_line_in_the_middle_loses_only_that_line(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", numbered(9))
    raw = path.read_bytes().split(b"\n")
    raw[4] = b"\x00" * 40
    raw[6] = b'{"kind":"note","text":"of the future"}'
    path.write_bytes(b"\n".join(raw))
    recording = open_recording(path)
    assert [line.seq for line in recording.lines()] == [1, 2, 3, 5, 7, 8, 9]
    assert (recording.problems.damaged, recording.problems.unknown, recording.problems.torn) == (1, 1, False)
    assert str(recording.problems) == "1 damaged line, 1 line of unknown kind"


def test_a_seek_finds_its_line_among_garbage(tmp_path: Path) -> None:
    lines = numbered(30_000)
    raw = [encode(HEADER), *map(encode, packed(lines))]
    at = random.Random(1)
    for _ in range(2000):
        raw[at.randrange(2, len(raw))] = b"\x00 garbage"
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(raw) + b"\n")
    recording = open_recording(path)
    kept = [line.seq for line in recording.lines()]
    for seq in (1, 7_000, 15_000, 29_000):
        assert next(recording.lines(seq=seq)).seq == next(known for known in kept if known >= seq)


def test_garbage_without_an_end_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "LINE_MAX", 10_000)
    monkeypatch.setattr(reader, "CHUNK", 1_000)
    path = written(tmp_path / "a.jsonl", numbered(3))
    path.write_bytes(path.read_bytes() + b"x" * 50_000 + b"\n" + raw(numbered(4)[3:]) + b"y" * 50_000)
    recording = open_recording(path)
    assert [line.seq for line in recording.lines()] == [1, 2, 3, 4]
    assert recording.problems.damaged == 1
    assert recording.problems.torn


def test_an_empty_file_is_refused_as_empty(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").touch()
    with pytest.raises(RecordingError, match="is empty: nothing was recorded"):
        open_recording(tmp_path / "a.jsonl")


def test_a_file_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"some":"json"}\n' * 3)
    with pytest.raises(RecordingError, match="is not a recording"):
        open_recording(tmp_path / "a.jsonl")


def test_two_files_that_were_joined_are_read_as_one(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", numbered(2))
    path.write_bytes(path.read_bytes() * 2)
    recording = open_recording(path)
    assert [line.seq for line in recording.lines()] == [1, 2, 1, 2]
    assert not recording.problems


def test_lost_blocks_of_a_compressed_recording_are_reported(tmp_path: Path) -> None:
    path = compressed(tmp_path / "a.jsonl.zst", numbered(20_000))
    whole = path.read_bytes()
    with path.open("rb") as file:
        found = index.read_index(file)
    assert found is not None
    second = found.entries[1]
    path.write_bytes(whole[: second.offset + 100] + b"\x00" * 4 + whole[second.offset + 104 :])
    recording = open_recording(path)
    kept = [line.seq for line in recording.lines()]
    assert (kept[0], kept[-1]) == (1, 20_000)
    assert str(recording.problems).startswith("1 damaged blocks of lines")
    path.write_bytes(whole[: second.offset])
    recording = open_recording(path)
    assert [line.seq for line in recording.lines()] == list(range(1, second.seq))
    assert str(recording.problems) == "it ends without its index, so lines may be missing"


def test_an_unreadable_compressed_file_is_not_called_empty(tmp_path: Path) -> None:
    path = compressed(tmp_path / "a.jsonl.zst", numbered(100))
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(RecordingError, match="nothing of it can be read"):
        open_recording(path)


def test_a_named_pipe_is_refused_and_one_beside_a_recording_is_passed_over(tmp_path: Path) -> None:
    pipe = tmp_path / "a~2.jsonl"
    os.mkfifo(pipe)
    with pytest.raises(RecordingError, match="not a regular file"):
        open_recording(pipe)
    path = written(tmp_path / "a.jsonl", numbered(3))
    assert [recording.path for recording in recordings_in(tmp_path)] == [path]
    assert [line.seq for line in open_recording(path).lines()] == [1, 2, 3]
