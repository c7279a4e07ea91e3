"""`dragoman translate` as its users run it: lines in, lines out, reports on stderr, an exit code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from gateway import registry
from gateway.translate import Report, translate
from mappings.dialect import Frame, Oversize
from tests.pairs.pod_player import Recording
from tests.shared import SHARED, needs_shared
from tests.smooth_shapes import assert_emitted, assert_strict

DATA = Path(__file__).parents[1] / "data"
CAPTURES = sorted((DATA / "captures" / "pod").glob("*.jsonl"))
UUID_0 = re.compile(r"00000000-0000-0000-0000-[0-9a-f]{12}")

END_OF = {
    **dict.fromkeys(("finished", "limit_reached"), "eventual_response"),
    **dict.fromkeys(("paused", "rolled_back", "cancelled"), "cancelled"),
    "failed": "error",
}


class Done(Struct, frozen=True):
    """What came of one process."""

    lines: list[bytes]
    reports: list[dict[str, Any]]
    code: int

    def bad(self) -> set[int]:
        """The numbers of the lines that were reported as bad."""
        return {report["line"] for report in self.reports if "error" in report}


def translated(source: str, target: str, text: bytes | Iterable[bytes], *options: str) -> Done:
    stdin = text if isinstance(text, bytes) else b"".join(line + b"\n" for line in text)
    command = [sys.executable, "-m", "gateway", "translate", "--from", source, "--to", target, *options]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=50, check=False)
    reports = [json.loads(line) for line in done.stderr.splitlines()]  # every line is JSON, or this fails
    return Done(done.stdout.split(b"\n")[:-1], reports, done.returncode)


# -- pod to pod -------------------------------------------------------------------------------------


def vectors(direction: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (DATA / "vectors" / "pod.jsonl").read_text("utf-8").split("\n") if line]
    return [row for row in rows if row["direction"] == direction]


@pytest.mark.parametrize(("direction", "options"), [("pod_to_client", ()), ("client_to_pod", ("--commands",))])
def test_every_pod_vector_comes_back_as_its_canonical_or_is_a_bad_line(
    direction: str, options: tuple[str, ...]
) -> None:
    rows = vectors(direction)
    done = translated("pod", "pod", [row["wire"].encode() for row in rows], *options)
    assert done.bad() == {number for number, row in enumerate(rows, 1) if not row["accept"]}
    good = [row for row in rows if row["accept"]]
    for row, line in zip(good, done.lines, strict=True):
        assert line.decode() == row["canonical"], row["name"]
    assert done.code == 1


@pytest.mark.parametrize(("direction", "options"), [("pod_to_client", ()), ("client_to_pod", ("--commands",))])
def test_accepted_vectors_alone_are_well(direction: str, options: tuple[str, ...]) -> None:
    done = translated("pod", "pod", [row["wire"].encode() for row in vectors(direction) if row["accept"]], *options)
    assert (done.bad(), done.code) == (set(), 0)


def test_the_vectors_are_all_there() -> None:
    assert (len(vectors("pod_to_client")), len(vectors("client_to_pod"))) == (71, 39)


# -- smooth to smooth -------------------------------------------------------------------------------


def golden(folder: str) -> list[dict[str, Any]]:
    files = sorted((DATA / "golden" / "smooth" / folder).glob("*.json"))
    return [case["frame"] for file in files for case in json.loads(file.read_text("utf-8"))]


@pytest.mark.parametrize(("folder", "options"), [("events", ()), ("actions", ("--commands",))])
def test_every_golden_smooth_frame_comes_back_equal(folder: str, options: tuple[str, ...]) -> None:
    frames = golden(folder)
    done = translated("smooth", "smooth", [json.dumps(frame).encode() for frame in frames], *options)
    assert [json.loads(line) for line in done.lines] == frames
    assert (done.reports, done.code) == ([], 0)


def captured_smooth(way: str) -> Iterator[str]:
    assert SHARED is not None
    for file in sorted((SHARED / "smooth-operator" / "captures").glob("*.jsonl")):
        for line in file.read_text("utf-8").split("\n"):
            row = json.loads(line) if line else {}
            if row.get("dir") == way and isinstance(row.get("frame"), str):
                yield row["frame"]


@needs_shared
def test_every_captured_smooth_event_comes_back_equal() -> None:
    frames = list(captured_smooth("s2c"))
    done = translated("smooth", "smooth", [frame.encode() for frame in frames])
    assert len(frames) > 90
    assert [json.loads(line) for line in done.lines] == [json.loads(frame) for frame in frames]
    assert (done.reports, done.code) == ([], 0)


@needs_shared
def test_every_captured_smooth_action_comes_back_without_its_undocumented_keys() -> None:
    frames = list(captured_smooth("c2s"))
    done = translated("smooth", "smooth", [frame.encode() for frame in frames], "--commands")
    dropped = {(report["line"], report["loss"]["field"].removeprefix("$.")) for report in done.reports}
    expected = [
        {key: value for key, value in json.loads(frame).items() if (number, key) not in dropped}
        for number, frame in enumerate(frames, 1)
    ]
    assert [json.loads(line) for line in done.lines] == expected
    assert {key for _, key in dropped} <= {"before"}
    assert done.code == 0


def test_an_unknown_smooth_event_is_reported_and_goes_on_to_its_own_dialect() -> None:
    done = translated("smooth", "smooth", [b'{"type":"confetti","colour":"red"}'])
    assert done.lines == [b'{"colour":"red","type":"confetti"}']
    assert [report["error"] for report in done.reports] == ["unknown"]
    assert done.code == 1


# -- pod to smooth ----------------------------------------------------------------------------------


def captured_pod(path: Path) -> list[bytes]:
    """What connection `a` of a capture was sent."""
    rows = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
    return [row["frame"].encode() for row in rows if row.get("conn") == "a" and row["dir"] == "s2c"]


def turns(frames: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The frames of each turn, by its id, in order of appearance."""
    by_id: dict[str, list[dict[str, Any]]] = {}
    for frame in frames:
        if "requestId" in frame:
            by_id.setdefault(frame["requestId"], []).append(frame)
    return by_id


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_a_captured_pod_becomes_strict_smooth_frames_with_the_text_of_each_turn(path: Path) -> None:
    lines = captured_pod(path)
    done = translated("pod", "smooth", lines)
    assert (done.bad(), done.code) == (set(), 0)
    frames = [json.loads(line) for line in done.lines]
    for frame in frames:
        assert_strict(frame)
        assert_emitted(frame)
        assert frame["timestamp"] == 0
        assert "requestId" not in frame or UUID_0.fullmatch(frame["requestId"])
    expected = [turn for turn in Recording(path).expected() if turn.end]
    shown = [of for of in turns(frames).values() if of[-1]["type"] in END_OF.values()]
    assert [of[-1]["type"] for of in shown] == [END_OF[turn.end] for turn in expected]
    for turn, of in zip(expected, shown, strict=True):
        text = "".join(frame["token"] for frame in of if frame["type"] == "stream_token")
        assert text == turn.text
        if of[-1]["type"] == "eventual_response":
            assert "".join(of[-1]["data"]["data"]["response"]["responseParts"]) == turn.text
        results = [chunk for frame in of if (chunk := raw_response(frame)) and "toolResult" in chunk]
        assert [chunk["toolResult"]["result"] for chunk in results] == turn.results


def test_the_captures_show_turns_of_each_end() -> None:
    assert {turn.end for path in CAPTURES for turn in Recording(path).expected()} >= {
        "finished",
        "rolled_back",
        "paused",
    }


def raw_response(frame: dict[str, Any]) -> dict[str, Any]:
    if frame["type"] != "stream_chunk":
        return {}
    found: dict[str, Any] = frame["data"]["state"]["rawResponse"]
    return found


def test_equal_input_gives_equal_output_byte_for_byte() -> None:
    lines = [line for path in CAPTURES[:4] for line in captured_pod(path)]
    assert translated("pod", "smooth", lines) == translated("pod", "smooth", lines)


def test_ids_count_up_from_zero() -> None:
    done = translated("pod", "smooth", captured_pod(next(path for path in CAPTURES if "three-turns" in path.stem)))
    text = b"\n".join(done.lines).decode()
    numbers = [int(found[-12:], 16) for found in dict.fromkeys(UUID_0.findall(text))]
    assert numbers == sorted(numbers)
    assert 0 <= numbers[0] < 5
    assert numbers[-1] < 100


def test_what_belongs_to_a_turn_that_was_never_opened_opens_one() -> None:
    done = translated("pod", "smooth", [b'{"event":"text_delta","data":{"text":"hi"}}'])
    (frame,) = [json.loads(line) for line in done.lines]
    assert (frame["type"], frame["token"]) == ("stream_token", "hi")
    assert UUID_0.fullmatch(frame["requestId"])


def test_reasoning_never_becomes_visible_text() -> None:
    said = [b'{"event":"thinking_start"}', b'{"event":"thinking_done","data":{"text":"secret"}}']
    done = translated("pod", "smooth", [*said, b'{"event":"status","data":{"status":"idle"}}'])
    assert {json.loads(line)["type"] for line in done.lines if b"secret" in line} == {"stream_reasoning"}


def test_internal_events_are_losses_with_their_line() -> None:
    alert = b'{"event":"alert","data":{"level":"warn","source":"pod","message":"m","timestamp_ms":1}}'
    done = translated("pod", "smooth", [b'{"event":"status","data":{"status":"idle"}}', alert])
    assert (done.lines, done.code) == ([], 0)
    (report,) = done.reports
    assert report["line"] == 2
    assert (report["loss"]["kind"], report["loss"]["count"]) == ("Alert", 1)


# -- bad lines, and the stream of lines -------------------------------------------------------------

GOOD = b'{"event":"thinking_start"}'


@pytest.mark.parametrize("target", ["pod", "smooth"])
def test_garbage_lines_do_not_stop_the_rest(target: str) -> None:
    garbage = [b"{", b"\xff\xfe", b"[]", b"null", b'{"event":"confetti"}', b"[" * 5000, b'"' * 77]
    delta = b'{"event":"text_delta","data":{"text":"x"}}'
    lines = [line for bad in garbage for line in (bad, delta)]
    done = translated("pod", target, lines)
    assert done.bad() == set(range(1, len(lines), 2))
    assert len(done.lines) == len(garbage)
    assert done.code == 1


def test_a_bad_line_has_the_number_that_an_editor_shows() -> None:
    done = translated("pod", "pod", b"\n" + GOOD + b"\r\n  \n\nbad\n" + GOOD)
    assert (done.lines, done.bad()) == ([GOOD, GOOD], {5})


def test_a_last_line_without_its_newline_counts() -> None:
    assert translated("pod", "pod", GOOD + b"\n" + GOOD).lines == [GOOD, GOOD]


def test_no_input_is_no_output() -> None:
    assert translated("pod", "smooth", b"") == Done([], [], 0)


def test_an_oversized_line_is_reported_and_the_next_one_read() -> None:
    seen: list[Report] = []
    out: list[bytes] = []
    pod = registry.dialect("pod")
    lines: list[tuple[int, Frame]] = [(1, Oversize(size=99, limit=9)), (2, GOOD)]
    assert not translate(pod, pod, lines, commands=False, out=out.append, said=seen.append)
    assert ([(report.line, report.error) for report in seen], out) == ([(1, "too_large")], [GOOD])


# -- commands between two dialects ------------------------------------------------------------------


def test_a_smooth_send_message_is_a_pod_run() -> None:
    send = b'{"action":"send_message","requestId":"r","sessionId":"s","message":"hi"}'
    done = translated("smooth", "pod", [send], "--commands")
    assert done.lines == [b'{"method":"run","params":{"input":[{"kind":"text","content":"hi"}]}}']
    assert done.code == 0


def test_a_command_that_the_target_has_no_word_for_is_a_loss() -> None:
    done = translated("pod", "smooth", [b'{"method":"pause"}'], "--commands")
    assert (done.lines, done.code) == ([], 0)
    assert [report["loss"]["kind"] for report in done.reports] == ["PauseTurn"]
