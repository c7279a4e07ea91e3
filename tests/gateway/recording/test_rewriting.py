from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from dragoman.gateway.recording.format import VERSION, EventLine, FrameLine, Line
from dragoman.gateway.recording.index import compressed
from dragoman.gateway.recording.reader import Problems, open_recording
from dragoman.gateway.recording.redaction.redactor import Finding, FindingCount, Redactor
from dragoman.gateway.recording.redaction.rules import EVER, RedactionRules
from dragoman.gateway.recording.rewriting import redact, scan
from dragoman.mappings.canonical.events import TextDelta, TextDone
from dragoman.mappings.errors import ConfigError
from tests.gateway.recording.lines import FROZEN, frames_of, in_parts, numbered, written
from tests.gateway.recording.redaction.corpus import SHAPES

KEY = SHAPES["github_token"]
RULES = RedactionRules(window_micros=EVER)


def lines(count: int = 300) -> list[Line]:
    """Return a long recording with a secret in a frame, and one in the letters of deltas that are seconds apart."""
    some = numbered(count)
    seq, t = some[-1].seq, some[-1].t
    for letter in f" {KEY}":
        seq, t = seq + 1, t + 9_000_000
        some.append(EventLine(seq=seq, t=t, cursor="1:1", event=TextDelta(text=letter)))
    some.append(EventLine(seq=seq + 1, t=t, cursor="1:1", event=TextDone(text=KEY)))
    some.append(FrameLine(seq=seq + 2, t=t, link="up", dir="receive", dialect="pod", text=f'{{"text":"{KEY}"}}'))
    return some


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return written(tmp_path / "rec.jsonl", lines())


def zst(path: Path) -> Path:
    packed = path.with_name(path.name + ".zst")
    with path.open("rb") as plain:
        packed.write_bytes(b"".join(compressed(plain)))
    return packed


def shown(path: Path) -> str:
    """Return everything that can be found in a file, also after unpacking it."""
    unpacked = "".join(map(str, open_recording(path).lines()))
    return unpacked + "".join(
        line.event.text for line in open_recording(path).events() if isinstance(line.event, TextDelta)
    )


def test_a_file_is_replaced_by_one_without_its_secrets(path: Path) -> None:
    os.utime(path, ns=(7, 7))
    entries = redact(open_recording(path), Redactor(RULES, b"salt"))
    assert sorted((entry.kind, entry.place, entry.count) for entry in entries) == [
        ("github_token", "frame.pod.receive", 1),
        ("github_token", "text_delta.text", 1),
        ("github_token", "text_done.text", 1),
    ]
    assert KEY not in shown(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_mtime_ns == 7
    assert [line.seq for line in open_recording(path).lines()] == [line.seq for line in lines()]
    assert list(path.parent.iterdir()) == [path]


def test_a_compressed_file_stays_compressed_and_can_be_read_from_anywhere(path: Path) -> None:
    packed = zst(path)
    redact(open_recording(packed), Redactor(RULES, b"salt"))
    recording = open_recording(packed)
    assert recording.parts[-1].compressed
    assert KEY not in shown(packed)
    assert next(recording.lines(t=250)).t == 250


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.zst"])
def test_a_new_file_leaves_the_old_one_alone(path: Path, name: str) -> None:
    before = path.read_bytes()
    out = path.with_name(name)
    redact(open_recording(path), Redactor(RULES, b"salt"), out)
    assert path.read_bytes() == before
    assert open_recording(out).parts[-1].compressed == name.endswith(".zst")
    assert KEY not in shown(out)
    assert out.stat().st_mode & 0o777 == 0o600


def test_redaction_overwrites_no_file_except_its_source(path: Path) -> None:
    out = path.with_name("out.jsonl")
    out.touch()
    with pytest.raises(ConfigError, match="not overwritten"):
        redact(open_recording(path), Redactor(RULES, b"salt"), out)
    assert out.read_bytes() == b""


def test_redaction_into_a_name_without_a_file_is_refused(path: Path) -> None:
    for out in (Path(""), Path("/")):
        with pytest.raises(ConfigError, match=f"{out} is a folder: name a new file"):
            redact(open_recording(path), Redactor(RULES, b"salt"), out)


def test_a_file_that_is_being_recorded_is_left_alone(path: Path) -> None:
    with path.open("rb") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match="still being recorded"):
            redact(open_recording(path), Redactor(RULES, b"salt"))
    assert KEY.encode() in path.read_bytes()


def test_a_failure_leaves_the_old_file_and_no_draft(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        redact(open_recording(path), Redactor(RULES, b"salt"))
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_the_target_of_a_symbolic_link_is_replaced(path: Path) -> None:
    link = path.with_name("link.jsonl")
    link.symlink_to(path)
    redact(open_recording(link), Redactor(RULES, b"salt"))
    assert link.is_symlink()
    assert KEY not in shown(path)


def test_a_torn_end_is_left_out(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b'{"kind":"frame","text":"' + KEY.encode())
    redact(open_recording(path), Redactor(RULES, b"salt"))
    assert KEY.encode() not in path.read_bytes()
    assert not open_recording(path).problems


def test_a_scan_reports_the_line_and_place_of_each_secret_and_writes_nothing(path: Path) -> None:
    before = path.read_bytes()
    found: list[Finding] = []
    entries = scan(open_recording(path), Redactor(RULES, b"salt", found.append))
    assert [(one.seq, one.kind, one.place) for one in found] == [
        (302, "github_token", "text_delta.text"),
        (342, "github_token", "text_done.text"),
        (343, "github_token", "frame.pod.receive"),
    ]
    assert sum(entry.count for entry in entries) == 3
    assert path.read_bytes() == before


def test_scan_finds_no_secret_in_a_redacted_recording(path: Path) -> None:
    redact(open_recording(path), Redactor(RULES, b"salt"))
    assert scan(open_recording(path), Redactor(RULES, b"other")) == []
    before = path.read_bytes()
    redact(open_recording(path), Redactor(RULES, b"other"))
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("before", "secret"),
    [(["password:"], " hunter2"), (["Author", "ization:", " Beare"], "r abcDEF123456abcDEF123456")],
)
def test_scan_joins_no_frames_around_one_that_was_emptied(tmp_path: Path, before: list[str], secret: str) -> None:
    frames: list[Line] = [
        FrameLine(seq=seq, t=seq, link="up", dir="receive", dialect="pod", text=f'{{"event":"text","text":"{text}"}}')
        for seq, text in enumerate([*before, secret, " is", "fine"])
    ]
    path = written(tmp_path / "rec.jsonl", frames)
    assert len(redact(open_recording(path), Redactor(RULES, b"salt"))) == 1
    emptied = [line.seq for line in frames_of(open_recording(path)) if line.text is None]
    assert emptied == [len(before)]
    assert scan(open_recording(path), Redactor(RULES, b"salt")) == []


def test_a_frozen_recording_is_rewritten_in_this_version(tmp_path: Path) -> None:
    (frozen, *_) = sorted(FROZEN.iterdir())
    out = tmp_path / "out.jsonl"
    entries: list[FindingCount] = redact(open_recording(frozen), Redactor(RULES, b"salt"), out)
    assert entries == []
    assert open_recording(out).header.version == VERSION
    assert list(open_recording(out).lines()) == list(open_recording(frozen).lines())


# -- recordings in parts ----------------------------------------------------------------------------------------


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    """Write a recording with the key in the second and third part, whose last part has no readable line."""
    paths = in_parts(tmp_path / "rec.jsonl", lines(), 100, 310, len(lines()) - 1, packed=(1,))
    head, *_ = paths[3].read_bytes().split(b"\n")
    paths[3].write_bytes(head + b"\n")
    return paths


def test_a_secret_split_over_two_parts_is_removed_from_both(parts: list[Path]) -> None:
    before = [[line.seq for line in part.steps(Problems())] for part in open_recording(parts[0]).parts]
    entries = redact(open_recording(parts[2]), Redactor(RULES, b"salt"))
    assert ("github_token", "text_delta.text", 1) in [(entry.kind, entry.place, entry.count) for entry in entries]
    after = open_recording(parts[0])
    assert KEY not in shown(parts[0])
    assert [[line.seq for line in part.steps(Problems())] for part in after.parts] == before
    assert [part.compressed for part in after.parts] == [False, True, False, False]
    assert [part.header.part for part in after.parts] == [0, 1, 2, 3]
    assert scan(after, Redactor(RULES, b"salt")) == []
    assert sorted(path.name for path in parts[0].parent.iterdir()) == sorted(path.name for path in parts)


def test_further_parts_of_a_new_file_stand_beside_it(parts: list[Path], tmp_path: Path) -> None:
    old = [path.read_bytes() for path in parts]
    out = tmp_path / "out" / "clean.jsonl"
    out.parent.mkdir()
    redact(open_recording(parts[0]), Redactor(RULES, b"salt"), out)
    assert [part.path for part in open_recording(out).parts] == [
        out.with_name(name) for name in ("clean.jsonl", "clean.1.jsonl", "clean.2.jsonl", "clean.3.jsonl")
    ]
    assert KEY not in shown(out)
    assert [path.read_bytes() for path in parts] == old


@pytest.mark.parametrize("taken", ["clean.jsonl", "clean.2.jsonl"])
def test_redaction_of_parts_overwrites_no_other_file(parts: list[Path], tmp_path: Path, taken: str) -> None:
    (tmp_path / taken).write_text("mine")
    with pytest.raises(ConfigError, match="not overwritten"):
        redact(open_recording(parts[0]), Redactor(RULES, b"salt"), tmp_path / "clean.jsonl")
    assert (tmp_path / taken).read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == len(parts) + 1


def test_no_part_is_replaced_before_the_last_is_written(parts: list[Path]) -> None:
    old = [path.read_bytes() for path in parts]
    with parts[-1].open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match="still being recorded"):
            redact(open_recording(parts[0]), Redactor(RULES, b"salt"))
    assert [path.read_bytes() for path in parts] == old
