from __future__ import annotations

import io
import os
import random
from pathlib import Path

import pytest
from msgspec import structs

from dragoman.gateway.recording import index, reader
from dragoman.gateway.recording.format import (
    UP,
    VERSION,
    CommandLine,
    EventLine,
    Line,
    RecordingError,
    encode,
    packed,
)
from dragoman.gateway.recording.reader import Missing, open_recording, recordings_in, sessions_in
from dragoman.mappings.canonical.commands import PauseTurn, SubmitInput
from dragoman.mappings.canonical.events import (
    Reply,
    TextDelta,
    ToolCallFinished,
    TurnAccepted,
    TurnEnded,
)
from dragoman.mappings.canonical.values import Origin, Text, Usage
from dragoman.mappings.dialect import Parts
from tests.gateway.recording.lines import (
    FROZEN,
    HEADER,
    commands_of,
    compressed,
    frames_of,
    in_parts,
    numbered,
    raw,
    written,
)
from tests.gateway.replay.recording_builder import OF_A_POD, SESSION, RecordingBuilder

# -- the frozen recordings --------------------------------------------------------------


@pytest.mark.parametrize("name", ["v4.jsonl", "v4.jsonl.zst"])
def test_the_frozen_recording_is_readable_for_ever(name: str) -> None:
    recording = open_recording(FROZEN / name)
    assert recording.header.session == "5b1c8c7e-0d4e-5c1a-9f0e-2f6a3c1d7e90"
    assert recording.header.dialects == {"smooth": "", "pod": "seed"}
    lines = list(recording.lines())
    assert [line.seq for line in lines] == list(range(1, 22))
    assert not recording.problems
    said = SubmitInput(request="r1", session=recording.header.session, segments=(Text(text="Grüße 🦀"),))
    assert commands_of(recording) == [said, PauseTurn(request="r2")]
    assert [line.position for line in recording.events()] == [(1, n) for n in range(10)]
    events = [line.event for line in recording.events()]
    assert events[0] == TurnAccepted(request="r1")
    assert events[4] == ToolCallFinished(call="c1", name="read_file", summary="2 lines", output="one\ntwo")
    assert events[-1] == TurnEnded(
        end="completed",
        text="Two lines.",
        message="00000000-0000-4000-8000-0000000000bb",
        usage=Usage(input_tokens=12, output_tokens=4),
    )
    frames = {line.seq: line.frame() for line in frames_of(recording)}
    assert frames[5] == b'{"event":"invoke_start","data":{"kind":"user_send"}}'
    assert frames[16] is None
    assert frames[19] == Parts("sub", b"", (b"llm.token", b"\xff\xfe\xfd"))
    assert frames[20] == b"\xff"
    assert frames[21] is None


@pytest.mark.parametrize("name", ["v4-streams.jsonl", "v4-streams.jsonl.zst"])
def test_the_frozen_recording_with_streams_is_readable_for_ever(name: str) -> None:
    recording = open_recording(FROZEN / name)
    lines = list(recording.lines())
    assert [line.seq for line in lines] == list(range(1, 16))
    assert not recording.problems
    said = ["Grüße, ", 'said "Dragon"', "\n"]
    deltas = [(line, line.event.text) for line in recording.events() if isinstance(line.event, TextDelta)]
    assert [(line.seq, line.position, line.t, line.at, text) for line, text in deltas] == [
        (4, (1, 1), 901, 1_700_000_000_000_901_000, said[0]),
        (5, (1, 2), 901, 1_700_000_000_000_901_000, said[1]),
        (9, (1, 3), 2300, 1_700_000_000_002_300_000, said[2]),
    ]
    origin = Origin(link="smooth-1", request="r1")
    assert {(line.turn[-2:], line.origin) for line in recording.events()} == {("aa", origin)}
    frames = {line.seq: line for line in frames_of(recording)}
    assert frames[3].frame() == rb'{"event":"text_delta","data":{"text":"said \"Dragon\""}}'
    data = '"token":"Grüße, ","data":{"requestId":"r1","token":"Grüße, "}'
    assert frames[6].frame() == f'{{"type":"stream_token","requestId":"r1","timestamp":1700000000000,{data}}}'.encode()
    assert frames[10].frame() == (
        rb'{"type":"stream_token","requestId":"r1","timestamp":1700000000002,"token":"\n",'
        rb'"data":{"requestId":"r1","token":"\n"}}'
    )
    assert [(seq, line.link, line.dir, line.t) for seq, line in frames.items()] == [
        (2, UP, "receive", 901),
        (3, UP, "receive", 901),
        (6, "smooth-1", "send", 901),
        (7, "smooth-1", "send", 901),
        (8, UP, "receive", 2300),
        (10, "smooth-1", "send", 2300),
        *((seq, UP, "receive", 2400) for seq in (11, 12, 13)),
    ]


@pytest.mark.parametrize("name", ["v4-streams.jsonl", "v4-streams.jsonl.zst"])
def test_a_recording_with_streams_is_read_from_any_time(name: str) -> None:
    recording = open_recording(FROZEN / name)
    lines = list(recording.lines())
    for t in (0, 900, 901, 902, 2300, 2301, 2400, 5000, 5001):
        assert list(recording.lines(t=t)) == [line for line in lines if line.t >= t]


# -- what is read ---------------------------------------------------------------------------------------


def test_commands_to_the_backend_are_not_commands_of_clients(tmp_path: Path) -> None:
    lines: list[Line] = [
        CommandLine(seq=1, t=0, cursor="1:0", link="pod-1", command=PauseTurn(request="a")),
        CommandLine(seq=2, t=0, cursor="1:0", link=UP, command=PauseTurn(request="b")),
        EventLine(seq=3, t=0, cursor="1:0", link="pod-1", event=Reply(request="a")),
    ]
    recording = open_recording(written(tmp_path / "a.jsonl", lines))
    assert [command.request for command in commands_of(recording)] == ["a"]
    assert list(recording.events()) == []


# -- in parts -----------------------------------------------------------------------------------------------


def test_opening_any_part_opens_the_whole_recording(tmp_path: Path) -> None:
    lines = numbered(90)
    paths = in_parts(tmp_path / "a.jsonl", lines, 20, 50, packed=(1,))
    assert [path.name for path in paths] == ["a.jsonl", "a.1.jsonl.zst", "a.2.jsonl"]
    for path in paths:
        recording = open_recording(path)
        assert list(recording.lines()) == lines
        assert (recording.path, recording.header.part) == (paths[0], 0)
        assert recording.size == sum(part.stat().st_size for part in paths)
        assert not recording.problems


def test_parts_are_recognized_by_their_headers(tmp_path: Path) -> None:
    """A name that was taken gets ~2; a part of another recording may have that name."""
    first, second = in_parts(tmp_path / "a.jsonl", numbered(9), 4)
    second.rename(tmp_path / "a~2.1.jsonl")
    written(second, numbered(3), structs.replace(HEADER, started_at=5, part=1, seq=1))
    (tmp_path / "a.2.jsonl").touch()  # a gateway was killed as it began this one
    (tmp_path / "a.3.jsonl").write_text("{}")
    written(tmp_path / "a-2.jsonl", numbered(3))
    for path in (first, tmp_path / "a~2.1.jsonl"):
        assert [part.path.name for part in open_recording(path).parts] == ["a.jsonl", "a~2.1.jsonl"]
    assert list(open_recording(second).lines()) == numbered(3)


def test_a_duplicated_part_is_read_once(tmp_path: Path) -> None:
    """A gateway that is killed after it compressed a part leaves it twice."""
    first, second = in_parts(tmp_path / "a.jsonl", numbered(9), 4)
    in_parts(tmp_path / "a.jsonl", numbered(9), 4, packed=(0, 1))
    assert list(open_recording(first).lines()) == numbered(9)
    assert list(open_recording(second.with_name("a.1.jsonl.zst")).lines()) == numbered(9)


@pytest.mark.parametrize("gone", [(0,), (1,), (1, 2), (0, 2)])
def test_a_missing_part_is_reported_and_the_others_are_read(tmp_path: Path, gone: tuple[int, ...]) -> None:
    paths = in_parts(tmp_path / "a.jsonl", numbered(40), 10, 20, 30)
    for number in gone:
        paths[number].unlink()
    recording = open_recording(paths[3])
    kept = [number for number in range(4) if number not in gone]
    assert [line.seq for line in recording.lines()] == [10 * part + n for part in kept for n in range(1, 11)]
    says = {
        (0,): "part 0 is missing",
        (1,): "part 1 is missing",
        (1, 2): "parts 1 to 2 are missing",
        (0, 2): "part 0 is missing, part 2 is missing",
    }
    assert str(recording.problems) == says[gone]
    assert [gap.seq for gap in recording.missing] == [10 * (n + 1) + 1 for n in gone if n + 1 not in gone]


def test_items_lost_between_parts_are_reported(tmp_path: Path) -> None:
    lines = numbered(9)
    written(tmp_path / "a.jsonl", lines[:3])
    written(tmp_path / "a.1.jsonl", lines[7:], structs.replace(HEADER, part=1, seq=8, lost=4))
    recording = open_recording(tmp_path / "a.jsonl")
    assert [line.seq for line in recording.lines()] == [1, 2, 3, 8, 9]
    assert recording.missing == (Missing(8, "4 lines were not recorded"),)
    assert str(recording.problems) == "4 lines were not recorded"


@pytest.mark.parametrize("packed", [(), (0, 1, 2, 3, 4)])
def test_a_seek_in_parts_gives_what_filtering_all_lines_would(tmp_path: Path, packed: tuple[int, ...]) -> None:
    lines = numbered(400)
    recording = open_recording(in_parts(tmp_path / "a.jsonl", lines, 1, 100, 101, 300, packed=packed)[2])
    assert [recording.part_of(seq) for seq in (0, 1, 2, 100, 101, 102, 300, 301, 999)] == [0, 0, 1, 1, 2, 3, 3, 4, 4]
    for t in range(0, 2_010, 5):
        assert next(recording.lines(t=t), None) == next((line for line in lines if line.t >= t), None)


def test_a_seek_reads_no_part_before_the_one_it_seeks(tmp_path: Path) -> None:
    recording = open_recording(in_parts(tmp_path / "a.jsonl", numbered(400), 100, 200, 300)[0])
    seen: list[int] = []
    recording.report_progress(seen.append)
    assert next(recording.lines(t=1_250)).seq == 250
    assert seen == [sum(part.size for part in recording.parts[:3])]


def test_progress_counts_the_bytes_of_all_parts(tmp_path: Path) -> None:
    recording = open_recording(in_parts(tmp_path / "a.jsonl", numbered(300), 100, 200)[0])
    told: list[int] = []
    recording.report_progress(told.append)
    assert len(list(recording.lines())) == 300
    assert told == sorted(told)
    assert (len(told), told[-1]) == (3, recording.size)


def test_a_folder_with_one_session_can_be_named_in_place_of_its_file(tmp_path: Path) -> None:
    lines = numbered(30)
    in_parts(tmp_path / "a.jsonl", lines, 10, packed=(1,))
    written(tmp_path / "route.jsonl", numbered(3), structs.replace(HEADER, session=""))
    (tmp_path / "notes.jsonl").write_text('{"some":"json"}\n')
    assert list(open_recording(tmp_path).lines()) == lines


def test_a_folder_with_no_or_several_sessions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="holds no recording of a session"):
        open_recording(tmp_path)
    in_parts(tmp_path / "a.jsonl", numbered(9), 4)
    written(tmp_path / "b.jsonl", numbered(3))
    with pytest.raises(RecordingError, match=r"several sessions: name a file in it, such as a\.jsonl or b\.jsonl"):
        open_recording(tmp_path)


def test_a_recording_of_a_later_version_in_a_folder_is_reported(tmp_path: Path) -> None:
    written(tmp_path / "a.jsonl", numbered(9))
    written(tmp_path / "b.jsonl", numbered(9), structs.replace(HEADER, session="other", version=VERSION + 1))
    with pytest.raises(RecordingError, match=r"b\.jsonl is a recording of version .* read it with a newer dragoman"):
        open_recording(tmp_path)


def test_frames_of_a_recording_keep_their_order(tmp_path: Path) -> None:
    recording = open_recording(written(tmp_path / "a.jsonl", numbered(6)))
    assert [frame.seq for frame in frames_of(recording)] == [1, 3, 5]
    assert all(frame.upstream for frame in frames_of(recording))


# -- one file ------------------------------------------------------------------------------------------------


def test_a_plain_and_a_compressed_file_give_the_same_lines(tmp_path: Path) -> None:
    lines = numbered(5_000)
    plain = open_recording(written(tmp_path / "a.jsonl", lines))
    packed = open_recording(compressed(tmp_path / "a.jsonl.zst", lines))
    assert (plain.parts[-1].compressed, packed.parts[-1].compressed) == (False, True)
    assert list(plain.lines()) == list(packed.lines()) == lines


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("count", [0, 1, 10_000])
def test_a_seek_gives_what_filtering_all_lines_would(tmp_path: Path, packed: bool, count: int) -> None:
    lines = numbered(count, text="word " * 6)
    recording = open_recording((compressed if packed else written)(tmp_path / "a", lines))
    at = random.Random(4)
    for seq in {0, 1, 2, count - 1, count, count + 1, *(at.randrange(count + 1) for _ in range(8))}:
        t = seq * 5
        assert next(recording.lines(t=t), None) == next((line for line in lines if line.t >= t), None)


@pytest.mark.parametrize("packed", [False, True])
def test_a_seek_does_not_read_what_comes_before(tmp_path: Path, packed: bool) -> None:
    lines = numbered(20_000, text="word " * 12)
    recording = open_recording((compressed if packed else written)(tmp_path / "a", lines))
    seen: list[int] = []
    recording.report_progress(seen.append)
    assert next(recording.lines(t=85_000)).seq == 17_000
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
    lines = numbered(10_000)
    raw = [encode(HEADER), *map(encode, packed(lines))]
    at = random.Random(1)
    for _ in range(700):
        raw[at.randrange(2, len(raw))] = b"\x00 garbage"
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(raw) + b"\n")
    recording = open_recording(path)
    kept = list(recording.lines())
    for t in (5, 10_000, 25_000, 47_500):
        assert next(recording.lines(t=t)) == next(line for line in kept if line.t >= t)


@pytest.mark.parametrize("garbage", [b"x" * 100_000, b"{\n" * 50_000])
def test_a_seek_in_garbage_reads_little_before_it_turns_back(garbage: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "NEAR", 100)
    monkeypatch.setattr(reader, "PROBE", 100, raising=False)

    class Counting(io.BytesIO):
        read_bytes = 0

        def readline(self, size: int | None = -1) -> bytes:
            line = super().readline(size)
            self.read_bytes += len(line)
            return line

    before, after = raw(numbered(3)), raw(numbered(4)[3:])
    file = Counting(before + garbage + b"\n" + after)
    assert reader._offset(file, 20) <= len(before)
    assert file.read_bytes < len(garbage) / 2


def test_garbage_without_an_end_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "LINE_MAX", 10_000)
    monkeypatch.setattr(reader, "CHUNK", 1_000)
    path = written(tmp_path / "a.jsonl", numbered(3))
    path.write_bytes(path.read_bytes() + b"x" * 50_000 + b"\n" + raw(numbered(4)[3:]) + b"y" * 50_000)
    recording = open_recording(path)
    assert [line.seq for line in recording.lines()] == [1, 2, 3, 4]
    assert recording.problems.damaged == 1
    assert recording.problems.torn
    assert max(len(line) for line, _ in reader._lines([b"z" * 1_000] * 50)) < 10_000


def test_a_file_that_is_deleted_while_it_is_read_is_read_to_its_end(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", numbered(3))
    lines = open_recording(path).lines()
    assert next(lines).seq == 1
    path.unlink()
    assert [line.seq for line in lines] == [2, 3]


def test_an_empty_file_is_refused_as_empty(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").touch()
    with pytest.raises(RecordingError, match="is empty: nothing was recorded"):
        open_recording(tmp_path / "a.jsonl")


def test_two_files_that_were_joined_are_read_as_one(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", numbered(2))
    path.write_bytes(path.read_bytes() * 2)
    recording = open_recording(path)
    assert [line.seq for line in recording.lines()] == [1, 2, 1, 2]
    assert not recording.problems


def test_lost_blocks_of_a_compressed_recording_are_reported(tmp_path: Path) -> None:
    path = compressed(tmp_path / "a.jsonl.zst", numbered(10_000))
    whole = path.read_bytes()
    with path.open("rb") as file:
        second = index.read_index(file)[1]
    path.write_bytes(whole[: second.offset + 100] + b"\x00" * 4 + whole[second.offset + 104 :])
    recording = open_recording(path)
    kept = [line.seq for line in recording.lines()]
    assert (kept[0], kept[-1]) == (1, 10_000)
    assert str(recording.problems).startswith("1 damaged block of lines")
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


# -- the sessions of a folder ----------------------------------------------------------------------


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
