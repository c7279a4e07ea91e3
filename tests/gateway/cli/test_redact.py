"""The commands redact and scan, from the user's side."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.gateway.recording.format import EventLine, Line
from dragoman.gateway.recording.reader import open_recording
from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.events import TextDelta, TextDone, ToolCallArguments
from tests.gateway.cli.program import Run
from tests.gateway.recording.lines import in_parts, written
from tests.gateway.recording.redaction.corpus import SHAPES

KEY = SHAPES["npm_token"]


@pytest.fixture
def dragoman(dragoman: Run) -> Callable[..., tuple[int, str, str]]:
    """Run the program; fail if it printed the secret."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code, out, err = dragoman(*arguments)
        assert KEY[4:] not in out + err
        return code, out, err

    return run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    events: list[Event] = [
        *(TextDelta(text=letter) for letter in f"it is {KEY}"),
        TextDone(text=f"it is {KEY}"),
        ToolCallArguments(call="a", json='{"who": "CUST-1234", "ssn": "on the street"}', done=True),
    ]
    lines: list[Line] = [EventLine(seq=at, t=at, cursor=f"1:{at}", event=event) for at, event in enumerate(events)]
    return written(tmp_path / "rec.jsonl", lines)


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.toml"
    path.write_text(
        '[[route]]\nlisten = ["smooth+ws://127.0.0.1:0/ws"]\nupstream = "pod+unix:/x"\n'
        f'[recording]\npath = "{tmp_path}/rec/"\n'
        "[recording.redact]\npatterns = { customer = 'CUST-[0-9]{4}' }\npaths = ['$.arguments.ssn']\n"
    )
    return str(path)


def test_scan_prints_line_kind_and_place_and_exits_1(dragoman: Run, path: Path) -> None:
    code, out, err = dragoman("scan", str(path))
    assert code == 1
    assert out.splitlines() == [
        f"{path}: seq 6: npm_token in text_delta.text",
        f"{path}: seq 46: npm_token in text_done.text",
    ]
    assert "2 secrets" in err


def test_scan_as_json_is_one_array(dragoman: Run, path: Path) -> None:
    other = path.with_name("other.jsonl")
    other.write_bytes(path.read_bytes())
    code, out, err = dragoman("scan", "--json", str(path), str(other))
    assert (code, err) == (1, "")
    assert json.loads(out) == [
        {"file": str(file), "seq": seq, "kind": "npm_token", "place": place}
        for file in (path, other)
        for seq, place in ((6, "text_delta.text"), (46, "text_done.text"))
    ]


def test_scan_goes_on_after_a_file_that_cannot_be_read_and_exits_2(dragoman: Run, path: Path) -> None:
    older = path.with_name("older.jsonl")
    older.write_text('{"kind":"header","format":"dragoman-recording","version":1}\n')
    alone = dragoman("scan", str(path))
    code, out, err = dragoman("scan", str(older), str(path))
    assert (code, out) == (2, alone[1])
    assert err.startswith(f"error: {older} is a recording of version 1")
    assert err.endswith(alone[2])
    code, out, _ = dragoman("scan", str(older), str(path), "--json")
    first, *others = json.loads(out)
    assert (code, first["file"], [row["seq"] for row in others]) == (2, str(older), [6, 46])
    assert first["text"] in err


def test_redact_prints_kinds_and_places_and_then_scan_finds_nothing(dragoman: Run, path: Path) -> None:
    code, out, err = dragoman("redact", str(path))
    assert (code, err) == (0, "")
    assert "npm_token" in out
    assert KEY not in path.read_text()
    assert dragoman("scan", str(path)) == (0, "no secrets found\n", "")
    assert dragoman("scan", str(path), "--json") == (0, "[]\n", "")
    assert dragoman("redact", str(path)) == (0, "no secrets found\n", "")


def test_redact_as_json_is_one_array(dragoman: Run, path: Path) -> None:
    code, out, _ = dragoman("redact", str(path), "-o", str(path.with_name("out.jsonl")), "--json")
    assert code == 0
    assert json.loads(out) == [
        {"kind": "npm_token", "place": "text_delta.text", "count": 1},
        {"kind": "npm_token", "place": "text_done.text", "count": 1},
    ]


def test_a_configuration_adds_its_patterns_and_paths(dragoman: Run, path: Path, config: str) -> None:
    code, out, _ = dragoman("scan", str(path), "--config", config, "--json")
    assert code == 1
    assert [row["kind"] for row in json.loads(out)] == ["npm_token", "npm_token", "customer", "path"]
    assert dragoman("redact", str(path), "--config", config)[0] == 0
    assert "CUST" not in path.read_text()
    assert "street" not in path.read_text()


def test_a_file_that_is_no_recording_is_refused(dragoman: Run, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text('{"password": "x"}\n')
    for command in ("scan", "redact"):
        code, out, err = dragoman(command, str(other))
        assert (code, out) == (2, "")
        assert err.startswith("error: ")
    assert dragoman("scan", str(tmp_path / "none.jsonl"))[0] == 2


def test_an_existing_file_is_not_overwritten(dragoman: Run, path: Path) -> None:
    code, _, err = dragoman("redact", str(path), "-o", str(path))
    assert code == 2
    assert "not overwritten" in err


def test_a_recording_in_parts_is_scanned_once_whichever_parts_are_named(dragoman: Run, path: Path) -> None:
    paths = in_parts(path.with_name("parts.jsonl"), list(open_recording(path).lines()), 10, 45)
    for named in (paths, paths[2:], paths[1:]):
        code, out, _ = dragoman("scan", *map(str, named))
        assert (code, out.splitlines()) == (
            1,
            [f"{paths[0]}: seq 6: npm_token in text_delta.text", f"{paths[2]}: seq 46: npm_token in text_done.text"],
        )
    assert dragoman("redact", str(paths[1]))[0] == 0
    assert dragoman("scan", str(paths[0]), str(path)) == (1, *dragoman("scan", str(path))[1:])
