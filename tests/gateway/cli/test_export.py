"""The commands export and import, from the user's side."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dragoman.gateway.recording.reader import open_recording
from tests.gateway.cli.program import RECORDED, Run
from tests.gateway.recording.lines import in_parts, numbered


def line(t: float, dir: str, message: object) -> dict[str, object]:
    return {"t": t, "conn": "a", "dir": dir, "frame": json.dumps(message)}


INPUT = [{"kind": "text", "content": "hi"}]
POD = [
    {"dialect": "pod", "peer": "a test"},
    line(0.5, "c2s", {"method": "run", "params": {"input": INPUT}}),
    line(1, "s2c", {"event": "user_message", "data": {"segments": INPUT}}),
    line(2, "s2c", {"event": "text_delta", "data": {"text": "ho"}}),
    line(3, "s2c", {"event": "run_end", "data": {"result": "finished"}}),
    line(3, "s2c", {"event": "status", "data": {"status": "idle"}}),
]


def capture(path: Path, *more: object) -> str:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in (*POD, *more)))
    return str(path)


def test_a_page_is_written_beside_its_recording_and_readable_only_by_its_owner(dragoman: Run, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.zst").write_bytes(Path(f"{RECORDED}.zst").read_bytes())
    code, out, err = dragoman("export", str(tmp_path / "a.jsonl.zst"))
    assert (code, out, err) == (0, "", f"written {tmp_path}/a.html\n")
    page = tmp_path / "a.html"
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert page.stat().st_mode & 0o777 == 0o600


def test_cloudevents_are_written_to_the_given_file(dragoman: Run) -> None:
    code, out, err = dragoman("export", RECORDED, "--format", "cloudevents", "-o", "-")
    assert (code, err) == (0, "")
    assert len(out.splitlines()) == 14
    assert len(dragoman("export", RECORDED, "--format", "cloudevents", "--frames", "-o", "-")[1].splitlines()) == 21


def test_a_failed_export_does_not_change_the_existing_file(dragoman: Run, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("before")
    (tmp_path / "a.jsonl").write_text("no recording")
    code, _, err = dragoman("export", str(tmp_path / "a.jsonl"))
    assert (code, len(err.splitlines())) == (2, 1)
    assert {path.name for path in tmp_path.iterdir()} == {"a.html", "a.jsonl"}
    assert (tmp_path / "a.html").read_text() == "before"


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.zst"])
def test_a_capture_becomes_a_recording(dragoman: Run, tmp_path: Path, name: str) -> None:
    target = str(tmp_path / name)
    assert dragoman("import", capture(tmp_path / "a.jsonl"), "-o", target) == (0, "", f"written {target}\n")
    assert open_recording(Path(target)).parts[-1].compressed is name.endswith(".zst")
    _, out, _ = dragoman("show", target, "--json", "--kind", "input", "--kind", "text", "--kind", "end")
    assert [(row["kind"], row["text"], row["t"]) for row in json.loads(out)] == [
        ("input", "hi", 1_000_000),
        ("text", "ho", 2_000_000),
        ("end", "completed", 3_000_000),
    ]


def test_an_unreadable_frame_is_reported_and_the_exit_code_is_1(dragoman: Run, tmp_path: Path) -> None:
    source = capture(tmp_path / "a.jsonl", {"t": 4, "conn": "a", "dir": "s2c", "frame": "nonsense"})
    code, _, err = dragoman("import", source, "-o", str(tmp_path / "out.jsonl"))
    assert code == 1
    assert err.splitlines()[0].startswith(f"{source}:7: ")


def test_a_capture_without_a_dialect_needs_the_option(dragoman: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"t": 0, "dir": "c2s", "frame": '{"action":"ping","requestId":"r"}'}) + "\n")
    code, _, err = dragoman("import", str(path))
    assert code == 2
    assert "add --dialect" in err
    assert dragoman("import", str(path), "--dialect", "smooth", "-o", str(tmp_path / "out.jsonl"))[0] == 0


@pytest.mark.parametrize(("more", "stays"), [((), False), (("--no-redact",), True)])
def test_secrets_of_a_capture_are_redacted_unless_disabled(
    dragoman: Run, tmp_path: Path, more: tuple[str, ...], stays: bool
) -> None:
    key = "sk-" + "proj-" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6"
    said = [{"kind": "text", "content": f"my key is {key}"}]
    source = capture(tmp_path / "c.jsonl", line(4, "c2s", {"method": "run", "params": {"input": said}}))
    code, _, _ = dragoman("import", source, "-o", str(tmp_path / "r.jsonl"), *more)
    assert code == 0
    assert (key in (tmp_path / "r.jsonl").read_text("utf-8")) is stays


def test_exporting_any_part_exports_the_whole_recording_beside_its_first_part(dragoman: Run, tmp_path: Path) -> None:
    paths = in_parts(tmp_path / "a.jsonl", numbered(30), 10, 20)
    for path in (paths[2], tmp_path):
        assert dragoman("export", str(path), "--format", "cloudevents", "--frames")[0] == 0
        out = tmp_path / "a.cloudevents.jsonl"
        assert [json.loads(event)["id"] for event in out.read_text().splitlines()] == [str(n) for n in range(1, 31)]
        out.unlink()


@pytest.mark.parametrize("command", [("export",), ("export", "--format", "cloudevents")])
@pytest.mark.parametrize("name", ["a.jsonl", "notes.txt"])
def test_an_export_overwrites_no_file(dragoman: Run, tmp_path: Path, command: tuple[str, ...], name: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(Path(RECORDED).read_bytes())
    (tmp_path / "notes.txt").write_text("mine")
    before = (tmp_path / name).read_bytes()
    code, _, err = dragoman(*command, str(tmp_path / "a.jsonl"), "-o", str(tmp_path / name))
    assert (code, err) == (2, f"error: {tmp_path / name} exists already: name a new file with --output\n")
    assert (tmp_path / name).read_bytes() == before


def test_a_second_export_does_not_overwrite_the_first(dragoman: Run, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(Path(RECORDED).read_bytes())
    assert [dragoman("export", str(tmp_path / "a.jsonl"))[0] for _ in range(2)] == [0, 2]


def test_an_import_overwrites_nothing(dragoman: Run, tmp_path: Path) -> None:
    source = capture(tmp_path / "a.jsonl")
    before = Path(source).read_text()
    code, _, err = dragoman("import", source, "-o", source)
    assert (code, err) == (2, f"error: {source} exists already: name a new file with --output\n")
    assert Path(source).read_text() == before


def test_an_export_into_a_pipe_is_written_to_it(dragoman: Run, tmp_path: Path) -> None:
    """For example `-o /dev/stdout`; a rename would replace the device by a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        read = pool.submit(pipe.read_text, "utf-8")
        assert dragoman("export", RECORDED, "-o", str(pipe))[0] == 0
        assert read.result(10).startswith("<!doctype html>")
    assert pipe.is_fifo()
