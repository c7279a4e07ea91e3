"""The commands show and diff, from the user's side."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import structs

from dragoman.gateway.cli.show import print_entries, print_sessions, print_turns
from dragoman.gateway.recording.format import EventLine, Line
from dragoman.gateway.recording.reader import open_recording, sessions_in
from dragoman.gateway.recording.show.transcript import transcript
from dragoman.gateway.recording.show.turns import turn_figures
from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.events import (
    CompactionStarted,
    TextDelta,
    TextDone,
    ToolCallArguments,
    ToolCallFinished,
    ToolCallStarted,
    ToolOutputDelta,
    TurnEnded,
)
from dragoman.mappings.canonical.values import Failure
from tests.gateway.cli.program import RECORDED, Run
from tests.gateway.recording.lines import in_parts, numbered, written
from tests.gateway.replay.recording_builder import OF_A_POD, RecordingBuilder, said


def test_show_prints_a_transcript(dragoman: Run) -> None:
    code, out, err = dragoman("show", RECORDED)
    assert (code, err) == (0, "")
    header, *lines = [line.split(maxsplit=1) for line in out.splitlines()]
    assert header[0] == "session"
    assert [line[1] for line in lines if line[0].startswith("0:")] == [
        "input     Grüße 🦀",
        'tool      read_file {"path":"notes.md"}',
        "result    read_file one",
        "text      Two lines.  [redacted]",
        "end       completed · 12 tokens in, 4 tokens out",
        "command   smooth-1 pause_turn",
        "reply     smooth-1 reply not_running: no turn is in progress",
        "loss      up too large: 20000000 bytes, over the limit of 16777216",
    ]


def test_show_as_json_prints_one_array(dragoman: Run) -> None:
    code, out, _ = dragoman("show", RECORDED, "--json", "--kind", "tool", "--kind", "result")
    assert code == 0
    rows = json.loads(out)
    assert [(row["kind"], row["turn"], row["seq"], row["t"]) for row in rows] == [
        ("tool", 1, 9, 2000),
        ("result", 1, 10, 3000),
    ]


KEYS = ["seq", "t", "kind", "turn", "link", "name", "text", "redacted", "lost"]


def test_json_output_always_has_all_keys(dragoman: Run, tmp_path: Path) -> None:
    assert {tuple(row) for row in json.loads(dragoman("show", RECORDED, "--json", "--all")[1])} == {tuple(KEYS)}
    a = RecordingBuilder().turn("one", TextDelta(text="1")).write(tmp_path, "a.jsonl")
    b = RecordingBuilder().turn("one").write(tmp_path, "b.jsonl")
    (difference,) = json.loads(dragoman("diff", str(a), str(b), "--json")[1])
    assert difference == {"turn": 1, "what": "text", "a": "1", "b": None}


def test_show_prints_below_a_row_what_clients_did_not_get_of_it(dragoman: Run) -> None:
    lines = dragoman("show", RECORDED)[1].splitlines()
    tool = next(number for number, line in enumerate(lines) if "read_file {" in line)
    assert lines[tool + 1].strip() == "lost: smooth clients get it without call"


def test_turns_are_printed_as_a_table_and_as_json(dragoman: Run) -> None:
    code, out, err = dragoman("show", RECORDED, "--turns")
    assert (code, err) == (0, "")
    assert out.splitlines()[1].split()[:3] == ["turn", "began", "duration"]
    (turn,) = json.loads(dragoman("show", RECORDED, "--turns", "--json")[1])
    assert (turn["turn"], turn["input"], turn["end"]) == (1, "Grüße 🦀", "completed")


@pytest.mark.parametrize("options", [(), ("--json",), ("--kind", "text")])
def test_a_turn_that_does_not_exist_is_an_error(dragoman: Run, options: tuple[str, ...]) -> None:
    code, out, err = dragoman("show", RECORDED, "--turn", "99", *options)
    text = "--turn 99: the recording has 1 turn, counted from 1"
    json_out = f'{{"error":"{text}"}}\n' if "--json" in options else ""
    assert (code, out, err) == (2, json_out, f"error: {text}\n")


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_folder_without_a_recording_is_an_error(dragoman: Run, tmp_path: Path, options: tuple[str, ...]) -> None:
    text = f"{tmp_path} holds no recording of a session"
    json_out = f'{{"error":"{text}"}}\n' if options else ""
    assert dragoman("show", str(tmp_path), *options) == (2, json_out, f"error: {text}\n")


def test_show_prints_in_order_of_time(dragoman: Run, tmp_path: Path) -> None:
    call = ToolCallStarted(call="c", name="ls")
    tool = (call, ToolCallArguments(call="c", json="{}", done=True), ToolCallFinished(call="c", output="a"))
    text = (TextDelta(text="see"), TextDone(text="I see"))
    path = RecordingBuilder().turn("one", TextDelta(text="I "), *tool, *text).write(tmp_path)
    rows = json.loads(dragoman("show", str(path), "--json", "--turn", "1")[1])
    assert [row["seq"] for row in rows] == sorted(row["seq"] for row in rows)
    assert [row["kind"] for row in rows if row["kind"] in ("text", "tool", "result")] == ["text", "tool", "result"]


def test_show_prints_each_input_once_and_a_refused_one_with_its_refusal(dragoman: Run, tmp_path: Path) -> None:
    tape = RecordingBuilder().turn("one").refused("two", Failure(cause="busy", text="not now")).turn("three")
    rows = json.loads(dragoman("show", str(tape.write(tmp_path)), "--json")[1])
    assert [(row["kind"], row["text"]) for row in rows if row["kind"] != "end"] == [
        ("input", "one"),
        ("command", "two"),
        ("reply", "busy: not now"),
        ("input", "three"),
    ]


def test_an_unanswered_input_is_shown_in_its_place(dragoman: Run, tmp_path: Path) -> None:
    tape = RecordingBuilder().asks(said("lost")).turn("two")
    rows = json.loads(dragoman("show", str(tape.write(tmp_path)), "--json")[1])
    assert [(row["kind"], row["text"]) for row in rows][:2] == [("command", "lost"), ("input", "two")]


def test_a_tool_call_that_never_finished_is_shown(dragoman: Run, tmp_path: Path) -> None:
    events = (
        ToolCallStarted(call="c", name="ls"),
        ToolCallArguments(call="c", json='{"pa'),
        ToolOutputDelta(call="c", text="a"),
    )
    path = RecordingBuilder().turn("one", *events).write(tmp_path)
    rows = json.loads(dragoman("show", str(path), "--json", "--kind", "tool", "--kind", "output")[1])
    assert [(row["kind"], row["name"], row["text"]) for row in rows] == [("tool", "ls", '{"pa'), ("output", "ls", "a")]


@pytest.mark.parametrize(
    "command", ["show {}", "show {} --json", "show {} --as pod", "export {} --format cloudevents -o -"]
)
def test_a_reader_that_closes_the_pipe_ends_the_command_quietly(tmp_path: Path, command: str) -> None:
    tape = RecordingBuilder()
    for number in range(100):  # together more than a pipe and its reader hold
        tape.turn(f"input {number}", TextDelta(text="x" * 2_000))
    script = f"{sys.executable} -m dragoman {command.format(tape.write(tmp_path))} | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.splitlines()[1:], done.stderr) == (["141"], "")


@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        (("--turn", "1"), ["input", "tool", "result", "text", "end"]),
        (("--from", "0.0045"), ["text", "end", "command", "reply", "loss"]),
        (("--from", "0:0.0045", "--to", "0.0055"), ["text", "end"]),
        (("--from", "2023-11-14T22:13:20.006Z"), ["command", "reply", "loss"]),
        (("--all", "--to", "0.00014"), ["command", "asked"]),
        (("--to", "0"), []),
    ],
)
def test_show_prints_the_requested_parts(dragoman: Run, options: tuple[str, ...], kinds: list[str]) -> None:
    rows = json.loads(dragoman("show", RECORDED, "--json", *options)[1])
    assert [row["kind"] for row in rows] == kinds


def test_show_as_a_dialect_prints_its_frames(dragoman: Run) -> None:
    code, out, err = dragoman("show", RECORDED, "--as", "smooth")
    assert (code, err) == (0, "")
    assert {json.loads(line)["requestId"] for line in out.splitlines()} == {"r1"}


def test_show_as_a_dialect_prints_what_its_clients_do_not_get(dragoman: Run, tmp_path: Path) -> None:
    path = RecordingBuilder().turn("one", CompactionStarted()).write(tmp_path)
    _, _, err = dragoman("show", str(path), "--as", "smooth")
    (row,) = map(json.loads, err.splitlines())
    assert (row["target"], row["kind"], row["count"]) == ("smooth", "CompactionStarted", 1)


def test_unreadable_parts_of_a_recording_are_reported(dragoman: Run, tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", numbered(4))
    path.write_bytes(path.read_bytes() + b'{"kind":"fra')
    code, out, err = dragoman("show", str(path))
    assert code == 0
    assert "word" in out
    assert err == f"{path}: its last line is torn; the rest was read\n"


def test_no_text_of_a_peer_controls_the_terminal(dragoman: Run, tmp_path: Path) -> None:
    line = EventLine(seq=1, t=0, cursor="1:0", turn="t", event=TextDone(text="\x1b[2J\x1b]0;title\x07 gone"))
    _, out, _ = dragoman("show", str(written(tmp_path / "a.jsonl", [line])))
    assert "\x1b" not in out
    assert "\\x1b[2J" in out


def test_no_name_that_a_peer_chose_looks_like_a_further_entry(dragoman: Run, tmp_path: Path) -> None:
    called = ToolCallArguments(call="c", name="ls\n    0:00.001  end       completed", json="{}", done=True)
    line = EventLine(seq=1, t=0, cursor="1:0", turn="t", event=called)
    _, out, _ = dragoman("show", str(written(tmp_path / "a.jsonl", [line])))
    assert [row for row in out.splitlines() if row.startswith("    0:00.001")] == []


def test_diff_of_equal_conversations_exits_0(dragoman: Run) -> None:
    assert dragoman("diff", RECORDED, f"{RECORDED}.zst") == (0, "the same conversation\n", "")
    assert dragoman("diff", RECORDED, f"{RECORDED}.zst", "--json") == (0, "[]\n", "")


def beside(folder: Path, *texts: str) -> Path:
    """Write a folder with the frames of a route, and one session for each text."""
    RecordingBuilder(structs.replace(OF_A_POD, session="")).frame().write(folder, "one-route.jsonl")
    for number, text in enumerate(texts):
        header = structs.replace(OF_A_POD, session=f"s{number}")
        RecordingBuilder(header).turn(text, TextDelta(text="1")).write(folder, f"one-{number}.jsonl")
    return folder


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("show", "{}"), 0),
        (("drive", "{}", "pod+unix:/nowhere"), 2),
        (("replay", "{}", "--listen", "pod+unix:/nowhere"), 2),
    ],
)
def test_the_error_for_a_file_without_a_session_names_the_session_beside_it(
    dragoman: Run, tmp_path: Path, command: tuple[str, ...], code: int
) -> None:
    route = beside(tmp_path, "hello") / "one-route.jsonl"
    done = dragoman(*(word.format(route) for word in command))
    words = f"{route} holds no session, only frames of its route; sessions are in one-0.jsonl\n"
    assert (done[0], done[2].removeprefix("error: ")) == (code, words)


def test_show_of_a_folder_lists_its_sessions(dragoman: Run, tmp_path: Path) -> None:
    folder = str(beside(tmp_path, "hello", "x" * 100))
    code, out, err = dragoman("show", folder)
    first, second = out.splitlines()
    assert (code, err) == (0, "")
    assert first == "one-0.jsonl  2023-11-14 22:13:20  test  hello"
    assert second.endswith(f"  {'x' * 59}…")
    rows = json.loads(dragoman("show", folder, "--json")[1])
    assert [(row["file"], row["session"], row["input"][:5]) for row in rows] == [
        ("one-0.jsonl", "s0", "hello"),
        ("one-1.jsonl", "s1", "xxxxx"),
    ]


def test_show_of_a_folder_names_the_files_that_it_does_not_list(dragoman: Run, tmp_path: Path) -> None:
    newer = beside(tmp_path, "hello") / "a.jsonl"
    newer.write_text('{"kind":"header","format":"dragoman-recording","version":5}')
    (tmp_path / "b.jsonl").touch()
    code, out, err = dragoman("show", str(tmp_path))
    assert (code, out) == (0, "one-0.jsonl  2023-11-14 22:13:20  test  hello\n")
    first, second = err.splitlines()
    assert first.startswith(f"not listed: {newer} is a recording of version 5, ")
    assert second.startswith(f"not listed: {tmp_path}/b.jsonl")


def test_show_says_under_which_ids_clients_know_a_session(dragoman: Run, tmp_path: Path) -> None:
    header = structs.replace(OF_A_POD, session="s0", shown_as=["7f9aa75e", "another"])
    path = RecordingBuilder(header).turn("hello", TextDelta(text="1")).write(tmp_path, "one.jsonl")
    assert dragoman("show", str(tmp_path))[1].splitlines()[1] == "    clients know it as 7f9aa75e, another"
    assert "session s0 (clients know it as 7f9aa75e, another), route" in dragoman("show", str(path))[1]
    assert json.loads(dragoman("show", str(tmp_path), "--json")[1])[0]["shown_as"] == ["7f9aa75e", "another"]


def test_choosing_turns_of_a_folder_is_refused(dragoman: Run, tmp_path: Path) -> None:
    code, out, err = dragoman("show", str(beside(tmp_path, "hello")), "--turn", "1")
    assert (code, out, err) == (2, "", f"error: {tmp_path} is a folder, whose sessions are listed: name a file in it\n")


def test_diff_aligns_turns_by_their_inputs(dragoman: Run, tmp_path: Path) -> None:
    """Only the second turn is missing in the second recording; the third one is the same."""
    tape, other = RecordingBuilder(), RecordingBuilder()
    for text in ("one", "two", "three"):
        tape.turn(text, TextDelta(text=f"answer {text}"))
    other.turn("one", TextDelta(text="answer one")).turn("three", TextDelta(text="answer three"))
    a, b = tape.write(tmp_path, "a.jsonl"), other.write(tmp_path, "b.jsonl")
    code, out, _ = dragoman("diff", str(a), str(b), "--json")
    (difference,) = json.loads(out)
    assert (code, difference["turn"], difference["what"], difference["b"]) == (1, 2, "turn", None)


def test_two_large_recordings_share_one_bar_of_progress(
    dragoman: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.gateway.cli.recordings.LONG", 0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    code, out, err = dragoman("diff", RECORDED, f"{RECORDED}.zst")
    assert code == 0
    assert "the same conversation" in out
    assert "v4.jsonl" in err


def conversation(path: Path, text: str) -> str:
    events: tuple[Event, ...] = (TextDelta(text=text), TextDone(text=text), TurnEnded(end="completed"))
    lines: list[Line] = [
        EventLine(seq=seq, t=seq, cursor=f"1:{seq}", turn="t", event=event) for seq, event in enumerate(events, 1)
    ]
    return str(written(path, lines))


def test_diff_of_different_conversations_prints_the_differences_and_exits_1(dragoman: Run, tmp_path: Path) -> None:
    a, b = conversation(tmp_path / "a.jsonl", "this"), conversation(tmp_path / "b.jsonl", "that")
    assert dragoman("diff", a, b) == (1, f"--- {a}\n+++ {b}\nturn 1: text\n- this\n+ that\n", "")
    code, out, _ = dragoman("diff", a, b, "--json")
    assert (code, json.loads(out)) == (1, [{"turn": 1, "what": "text", "a": "this", "b": "that"}])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", __file__), "is not a recording"),
        (("show", "/nowhere.jsonl"), "/nowhere.jsonl: No such file"),
        (("show", RECORDED, "--kind", "toool"), "--kind 'toool': write one of input, text"),
        (("show", RECORDED, "--from", "noon"), "invalid time 'noon'"),
        (("show", RECORDED, "--from", "1:60"), "seconds after a colon are below 60"),
        (("show", RECORDED, "--to", "9:99:59"), "minutes and seconds after a colon are below 60"),
        (("show", RECORDED, "--from", "1:30", "--to", "80"), "--to 80 is before --from 1:30"),
        (("show", RECORDED, "--to", "9" * 400), "write at most 31536000 seconds"),
        (("show", RECORDED, "--as", "latin"), "unknown dialect 'latin'"),
        (("show", RECORDED, "--as", "pod", "--all"), "--as prints frames"),
        (("show", RECORDED, "--turns", "--kind", "text"), "--turns prints a table of all turns"),
        (("export", RECORDED, "--frames"), "--frames needs --format cloudevents"),
        (("export", RECORDED, "-o", "/nowhere/a.html"), "/nowhere/a.html: No such file"),
    ],
)
def test_wrong_usage_prints_one_line_that_says_what_to_do(dragoman: Run, arguments: tuple[str, ...], said: str) -> None:
    code, out, err = dragoman(*arguments)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert said in err


def test_a_recording_in_parts_is_shown_and_compared_as_one(dragoman: Run, tmp_path: Path) -> None:
    whole = conversation(tmp_path / "whole.jsonl", "this")
    paths = in_parts(tmp_path / "a.jsonl", list(open_recording(Path(whole)).lines()), 1)
    for path in (*paths, tmp_path / "whole.jsonl"):
        assert dragoman("show", str(path), "--json") == dragoman("show", whole, "--json")
    assert dragoman("diff", whole, str(paths[1]))[0] == 0


def test_a_missing_part_is_shown_and_reported(dragoman: Run, tmp_path: Path) -> None:
    _, gone, last = in_parts(tmp_path / "a.jsonl", numbered(30), 10, 20)
    gone.unlink()
    code, out, err = dragoman("show", str(last), "--json", "--kind", "loss")
    assert (code, [(row["seq"], row["text"]) for row in json.loads(out)]) == (0, [(21, "part 1 is missing")])
    assert err == f"{tmp_path}/a.jsonl: part 1 is missing; the rest was read\n"


# -- lines of text


Captured = pytest.CaptureFixture[str]


def printed(path: Path, capsys: Captured) -> list[str]:
    recording = open_recording(path)
    print_entries(recording, transcript(recording.lines()))
    return capsys.readouterr().out.splitlines()


def test_a_long_line_is_not_cut_to_the_width_of_the_terminal(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    path = RecordingBuilder().turn("one", TextDone(text="word " * 100 + "end")).write(tmp_path)
    assert any(line.endswith("word end") for line in printed(path, capsys))


def test_further_lines_of_a_text_stand_below_its_first(tmp_path: Path, capsys: Captured) -> None:
    path = RecordingBuilder().turn("one", TextDone(text="first\nsecond")).write(tmp_path)
    lines = printed(path, capsys)
    first, second = (next(line for line in lines if line.endswith(text)) for text in ("first", "second"))
    assert first.index("first") == second.index("second")


def test_empty_lines_around_a_text_are_not_shown(tmp_path: Path, capsys: Captured) -> None:
    path = RecordingBuilder().turn("one", TextDone(text="\n\n first\n\nsecond \n")).write(tmp_path)
    lines = printed(path, capsys)
    at = next(number for number, line in enumerate(lines) if line.endswith("  text      first"))
    assert [line.strip() for line in lines[at + 1 : at + 3]] == ["", "second"]
    assert lines[at + 3].split()[1] == "detail", "the next entry follows"


def test_the_table_of_turns_has_a_row_for_each_turn(tmp_path: Path, capsys: Captured) -> None:
    tape = RecordingBuilder().at(1000).turn("one\ntwo", end=None).at(1250).sends(TextDelta(text="a")).at(3500).ends()
    recording = open_recording(tape.at(4000).turn("three", end=None).write(tmp_path))
    print_turns(recording, turn_figures(recording.lines()))
    _, head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == [
        "turn",
        "began",
        "duration",
        "first",
        "token",
        "deltas",
        "in",
        "out",
        "tools",
        "lost",
        "end",
        "input",
    ]
    assert first.split() == ["1", "0:01.000", "2.500", "s", "0.250", "s", "1", "0", "completed", "one", "two"]
    assert second.split() == ["2", "0:04.000", "0", "0", "still", "open", "three"]


@pytest.mark.parametrize(
    ("ms", "shown"), [(59_999.9, "0:59.999"), (3_599_999.9, "59:59.999"), (3_723_004, "1:02:03.004")]
)
def test_a_time_is_cut_to_milliseconds_and_never_shows_sixty_seconds(
    tmp_path: Path, capsys: Captured, ms: float, shown: str
) -> None:
    recording = open_recording(RecordingBuilder().at(ms).turn("one").write(tmp_path))
    print_turns(recording, turn_figures(recording.lines()))
    assert capsys.readouterr().out.splitlines()[-1].split()[1] == shown


def test_control_characters_in_a_list_of_sessions_are_escaped(tmp_path: Path, capsys: Captured) -> None:
    RecordingBuilder().turn("\x1b[2J gone").write(tmp_path)
    print_sessions(sessions_in(tmp_path))
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\\x1b[2J gone" in out
