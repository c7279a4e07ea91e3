"""The command `dragoman translate` from the user's side: lines in, lines out, reports on stderr, an exit code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4, uuid5

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from dragoman.gateway import registry
from dragoman.gateway.translate import Report, translate
from dragoman.mappings.dialect import Frame, Oversize
from dragoman.mappings.smooth.wire.replies import Session
from tests.data_files import DATA, captured_smooth, captures, vectors
from tests.forked_program import dragoman_bytes
from tests.players.capture_readers import Turn, turns_of
from tests.players.captures import messages
from tests.shared import SHARED, needs_shared
from tests.smooth_shapes import assert_emitted, assert_strict

CAPTURES = captures("pod")
UUID_0 = re.compile(r"00000000-0000-0000-0000-[0-9a-f]{12}")

END_OF = {"completed": "eventual_response", "cancelled": "cancelled", "failed": "error"}


class Done(Struct, frozen=True):
    """The result of a process."""

    lines: list[bytes]
    reports: list[dict[str, Any]]
    code: int

    def bad(self) -> set[int]:
        """The numbers of the lines that were reported as bad."""
        return {report["line"] for report in self.reports if "error" in report}


def translated(source: str, target: str, text: bytes | Iterable[bytes], *options: str) -> Done:
    stdin = text if isinstance(text, bytes) else b"".join(line + b"\n" for line in text)
    done = dragoman_bytes("translate", "--from", source, "--to", target, *options, stdin=stdin)
    reports = [json.loads(line) for line in done.stderr.splitlines()]  # every line is JSON, or this fails
    return Done(done.stdout.split(b"\n")[:-1], reports, done.returncode)


# -- pod to pod -------------------------------------------------------------------------------------


def pod_vectors(direction: str) -> list[dict[str, Any]]:
    return [row for row in vectors("pod") if row["direction"] == direction]


@pytest.mark.parametrize(("direction", "options"), [("pod_to_client", ()), ("client_to_pod", ("--commands",))])
def test_every_pod_vector_comes_back_in_its_canonical_form_or_is_a_bad_line(
    direction: str, options: tuple[str, ...]
) -> None:
    rows = pod_vectors(direction)
    done = translated("pod", "pod", [row["wire"].encode() for row in rows], *options)
    assert done.bad() == {number for number, row in enumerate(rows, 1) if not row["accept"]}
    good = [row for row in rows if row["accept"]]
    for row, line in zip(good, done.lines, strict=True):
        assert line.decode() == row["canonical"], row["name"]
    assert done.code == 1


def pod_frames(way: str) -> list[tuple[str, str]]:
    """Yield every frame of this direction in a capture, with its connection."""
    rows = [json.loads(line) for path in CAPTURES for line in path.read_text("utf-8").split("\n") if line]
    return [(row["conn"], row["frame"]) for row in rows if row.get("dir") == way]


@pytest.mark.parametrize(
    ("way", "least", "options"), [("s2c", 1000, ()), ("c2s", 30, ("--commands",))], ids=["events", "methods"]
)
def test_every_captured_pod_message_comes_back_equal(way: str, least: int, options: tuple[str, ...]) -> None:
    frames = [frame for conn, frame in pod_frames(way) if way == "s2c" or conn != "r"]  # r is a script of bad lines
    done = translated("pod", "pod", [frame.encode() for frame in frames], *options)
    assert len(frames) > least
    assert [json.loads(line) for line in done.lines] == [json.loads(frame) for frame in frames]
    assert (done.reports, done.code) == ([], 0)


def test_the_captured_raw_script_has_as_many_bad_lines_as_the_real_pod_refused() -> None:
    said = [frame for conn, frame in pod_frames("c2s") if conn == "r"]
    told = [json.loads(frame) for conn, frame in pod_frames("s2c") if conn == "r"]
    refused = [e for e in told if e["event"] == "error" and e["data"]["message"].startswith("invalid method")]
    done = translated(
        "pod", "pod", [frame.encode() for frame in said if frame.strip()], "--commands"
    )  # blank ones pass
    assert len(done.bad()) == len(refused) == 11
    (taken,) = [event for event in told if event["event"] == "user_message"][-1:]
    assert [json.loads(line)["params"]["input"] for line in done.lines] == [taken["data"]["segments"]]


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


@needs_shared
def test_every_captured_smooth_event_comes_back_equal() -> None:
    frames = captured_smooth("s2c")
    done = translated("smooth", "smooth", [frame.encode() for frame in frames])
    assert len(frames) > 90
    assert [json.loads(line) for line in done.lines] == [json.loads(frame) for frame in frames]
    assert (done.reports, done.code) == ([], 0)


@needs_shared
def test_every_captured_smooth_action_comes_back_without_its_undocumented_keys() -> None:
    frames = captured_smooth("c2s")
    done = translated("smooth", "smooth", [frame.encode() for frame in frames], "--commands")
    dropped = {(report["line"], report["loss"]["field"].removeprefix("$.")) for report in done.reports}
    expected = [
        {key: value for key, value in json.loads(frame).items() if (number, key) not in dropped}
        for number, frame in enumerate(frames, 1)
    ]
    assert [json.loads(line) for line in done.lines] == expected
    assert {key for _, key in dropped} <= {"before"}
    assert done.code == 0


# Definition of a schema -> a whole frame and the key at which an instance of the definition stands in it.
WHOLE: dict[str, tuple[dict[str, Any], str]] = {
    "Response": ({"type": "immediate_response", "status": 200, "message": "OK", "data": None, "timestamp": 1}, "data"),
    "Spec": (
        {
            "type": "interaction_required",
            "requestId": "r",
            "data": {"requestId": "r", "data": {"interactionId": "i", "kind": "k", "spec": None, "reason": "r"}},
            "timestamp": 1,
        },
        "data.data.spec",
    ),
    "Values": (
        {"action": "submit_interaction", "requestId": "r", "sessionId": "s", "interactionId": "i", "values": None},
        "values",
    ),
    "Payload": (
        {
            "type": "stream_chunk",
            "requestId": "r",
            "node": "n",
            "data": {"requestId": "r", "node": "n", "state": {"structuredResponse": None}},
            "timestamp": 1,
        },
        "data.state.structuredResponse",
    ),
}


def whole(schema: str, instance: dict[str, Any]) -> dict[str, Any]:
    """Return the frame that an instance is, or that contains it."""
    if "type" in instance or "action" in instance:
        return instance
    around, path = WHOLE[schema.rpartition("/")[2]]
    frame: dict[str, Any] = json.loads(json.dumps(around))
    *keys, last = path.split(".")
    place = frame
    for key in keys:
        place = place[key]
    place[last] = instance
    return frame


def fixtures() -> list[dict[str, Any]]:
    assert SHARED is not None
    table = json.loads((SHARED / "smooth-operator" / "spec" / "conformance" / "fixtures.json").read_text("utf-8"))
    return [whole(row["$schema_ref"], row["instance"]) for row in table.values() if isinstance(row, dict)]


@needs_shared
@pytest.mark.parametrize(("key", "options"), [("type", ()), ("action", ("--commands",))])
def test_every_conformance_fixture_comes_back_equal(key: str, options: tuple[str, ...]) -> None:
    frames = [frame for frame in fixtures() if key in frame]
    done = translated("smooth", "smooth", [json.dumps(frame).encode() for frame in frames], *options)
    assert [json.loads(line) for line in done.lines] == frames
    assert (done.reports, done.code) == ([], 0)


@needs_shared
def test_no_conformance_fixture_is_skipped() -> None:
    frames = fixtures()
    assert len(frames) > 22
    assert all(("type" in frame) != ("action" in frame) for frame in frames)


@needs_shared
def test_session_descriptors_of_the_fixtures_come_back_through_their_struct() -> None:
    described = [f["data"] for f in fixtures() if f.get("type") == "immediate_response" and "sessionId" in f["data"]]
    assert len(described) > 1
    for session in described:
        again = msgspec.json.encode(msgspec.json.decode(json.dumps(session), type=Session))
        assert json.loads(again) == session


def test_an_unknown_smooth_event_is_reported_and_passed_on_to_its_own_dialect() -> None:
    line = b'{"type":"confetti","colour":"red"}'
    done = translated("smooth", "smooth", [line])
    assert done.lines == [line]
    assert [report["error"] for report in done.reports] == ["unknown"]
    assert done.code == 1


# -- pod to smooth ----------------------------------------------------------------------------------


def captured_pod(path: Path) -> list[bytes]:
    """Return the frames that connection `a` of a capture received."""
    rows = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
    return [row["frame"].encode() for row in rows if row.get("conn") == "a" and row["dir"] == "s2c"]


def turns(frames: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the frames of each turn by its id, in order of appearance."""
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
    expected = [turn for turn in recorded(path) if turn.end]
    shown = [of for of in turns(frames).values() if of[-1]["type"] in END_OF.values()]
    assert [of[-1]["type"] for of in shown] == [END_OF[turn.end] for turn in expected]
    for turn, of in zip(expected, shown, strict=True):
        text = "".join(frame["token"] for frame in of if frame["type"] == "stream_token")
        assert text == turn.text
        if of[-1]["type"] == "eventual_response":
            assert "".join(of[-1]["data"]["data"]["response"]["responseParts"]) == turn.text
        results = [chunk for frame in of if (chunk := raw_response(frame)) and "toolResult" in chunk]
        assert [chunk["toolResult"]["result"] for chunk in results] == [result for _, result in turn.results]


def recorded(path: Path) -> list[Turn]:
    """Return the turns in a pod's capture."""
    told = [message for message in messages("pod", path.stem[:2]) if message.conn == "a"]
    return turns_of("pod", ((message.way, message.value) for message in told))


def test_the_captures_show_turns_that_are_completed_and_cancelled() -> None:
    assert {turn.end for path in CAPTURES for turn in recorded(path)} >= {"completed", "cancelled"}


def raw_response(frame: dict[str, Any]) -> dict[str, Any]:
    if frame["type"] != "stream_chunk":
        return {}
    found: dict[str, Any] = frame["data"]["state"]["rawResponse"]
    return found


def test_equal_input_gives_equal_output_byte_for_byte() -> None:
    text = b"".join(line + b"\n" for path in CAPTURES[:4] for line in captured_pod(path))
    command = [sys.executable, "-m", "dragoman", "translate", "--from", "pod", "--to", "smooth"]
    one, other = (
        subprocess.run(
            command,
            input=text,
            capture_output=True,
            timeout=50,
            check=False,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        for seed in "12"
    )
    assert (one.stdout, one.stderr, one.returncode) == (other.stdout, other.stderr, other.returncode)
    assert len(one.stdout) > len(text) / 2


def test_ids_count_up_from_zero() -> None:
    done = translated("pod", "smooth", captured_pod(next(path for path in CAPTURES if "three-turns" in path.stem)))
    text = b"\n".join(done.lines).decode()
    numbers = [int(found[-12:], 16) for found in dict.fromkeys(UUID_0.findall(text))]
    assert numbers == sorted(numbers)
    assert 0 <= numbers[0] < 5
    assert numbers[-1] < 100


def test_content_of_a_turn_that_was_never_opened_opens_one() -> None:
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


@pytest.mark.parametrize(("target", "lost"), [("smooth", []), ("codewhale", ["agent", "ext.authContext"])])
def test_fields_of_commands_that_the_target_does_not_have_are_losses_with_their_line(
    target: str, lost: list[str]
) -> None:
    auth = {"userId": "u", "signature": "00", "timestamp": 1}
    create = {"action": "create_conversation_session", "requestId": "c", "agentId": str(uuid4()), "authContext": auth}
    done = translated("smooth", target, [json.dumps(create).encode()], "--commands")
    assert (len(done.lines), done.code) == (1, 0)
    assert lost_fields(done) == [(1, "OpenSession", field) for field in lost]


def lost_fields(done: Done) -> list[tuple[int, str, str]]:
    return [(report["line"], report["loss"]["kind"], report["loss"]["field"]) for report in done.reports]


def test_fields_of_events_that_the_target_does_not_have_are_losses_with_their_line() -> None:
    result = {"id": "c1", "summary": "one", "output": "one line", "is_error": False}
    said = [
        b'{"event":"tool_call_start","data":{"id":"c1","name":"ls"}}',
        json.dumps({"event": "tool_result", "data": result}).encode(),
    ]
    done = translated("pod", "smooth", said)
    # the arguments of the call are completed before its result; a chunk has no id and one text
    assert lost_fields(done) == [
        (2, "ToolCallArguments", "call"),
        (2, "ToolCallFinished", "call"),
        (2, "ToolCallFinished", "summary"),
    ]


def test_names_that_translation_adds_to_a_command_are_no_losses() -> None:
    start = b'{"jsonrpc":"2.0","id":1,"method":"thread/start","params":{"model":"m"}}'
    assert lost_fields(translated("codewhale", "smooth", [start], "--commands")) == [(1, "OpenSession", "model")]


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


def test_a_bad_line_is_reported_with_the_line_number_of_an_editor() -> None:
    done = translated("pod", "pod", b"\n" + GOOD + b"\r\n  \n\nbad\n" + GOOD)
    assert (done.lines, done.bad()) == ([GOOD, GOOD], {5})


def test_an_unterminated_last_line_is_translated() -> None:
    assert translated("pod", "pod", GOOD + b"\n" + GOOD).lines == [GOOD, GOOD]


def test_translate_without_input_writes_no_output() -> None:
    assert translated("pod", "smooth", b"") == Done([], [], 0)


def test_an_oversized_line_is_reported_and_the_next_one_translated() -> None:
    seen: list[Report] = []
    out: list[bytes] = []
    pod = registry.dialect("pod")
    lines: list[tuple[int, Frame]] = [(1, Oversize(size=99, limit=9)), (2, GOOD)]
    assert not translate(pod, pod, lines, commands=False, out=out.append, report=seen.append)
    assert ([(report.line, report.error) for report in seen], out) == ([(1, "too_large")], [GOOD])


# -- commands between two dialects ------------------------------------------------------------------


def test_a_smooth_send_message_is_a_pod_run() -> None:
    send = b'{"action":"send_message","requestId":"r","sessionId":"s","message":"hi"}'
    done = translated("smooth", "pod", [send], "--commands")
    assert done.lines == [b'{"method":"run","params":{"input":[{"kind":"text","content":"hi"}]}}']
    assert done.code == 0


def test_commands_of_a_pod_client_become_those_of_one_smooth_client_in_one_session() -> None:
    said = [
        b'{"method":"run","params":{"input":[{"kind":"text","content":"hi"},{"kind":"file_ref","path":"a.py"}]}}',
        b'{"method":"pause"}',
        b'{"method":"cancel"}',
        b'{"method":"list_visible_pods"}',
        b'{"method":"inspect_pod","params":{"name":"kid-1"}}',
        b'{"method":"attach_or_restore_pod","params":{"name":"kid-1"}}',
    ]
    done = translated("pod", "smooth", said, "--commands")
    session = str(uuid5(UUID(int=0), "session"))  # docs/translation.md, rule 3.1, of the session that is counted first
    run, cancel, listed, inspected, attached = (json.loads(line) for line in done.lines)
    assert run == {"action": "send_message", "requestId": str(UUID(int=1)), "sessionId": session, "message": "hi@a.py"}
    assert cancel == {"action": "cancel", "requestId": str(UUID(int=2)), "sessionId": session}
    assert listed == {"action": "list_conversations", "requestId": str(UUID(int=3))}
    assert inspected == {"action": "get_session", "requestId": str(UUID(int=4)), "sessionId": "kid-1"}
    agent, request = attached.pop("agentId"), attached.pop("requestId")
    assert {agent, request} == {str(UUID(int=5)), str(UUID(int=6))}
    assert attached == {"action": "create_conversation_session", "conversationId": "kid-1"}
    assert [report["line"] for report in done.reports] == [1, 2]  # the reference is only text, and there is no pause


@needs_shared
def test_a_pod_s_inputs_are_strict_smooth_actions() -> None:
    assert SHARED is not None
    schema = json.loads((SHARED / "smooth-operator/spec/actions/send-message.schema.json").read_text("utf-8"))
    frames = [frame.encode() for _, frame in pod_frames("c2s") if '"run"' in frame and '"text"' in frame]
    done = translated("pod", "smooth", frames, "--commands")
    sent = [json.loads(line) for line in done.lines]
    assert len(sent) > 15
    checker = jsonschema.Draft202012Validator(schema["$defs"]["Request"], format_checker=jsonschema.FormatChecker())
    for frame in sent:
        checker.validate(frame)
    assert len({frame["requestId"] for frame in sent}) == len(sent)


EMPTY = "the input is empty"


@pytest.mark.parametrize(
    ("source", "line", "why"),
    [
        ("pod", b'{"method":"run","params":{"input":[]}}', EMPTY),
        ("pod", b'{"method":"run","params":{"input":[{"kind":"text","content":" \\n"}]}}', EMPTY),
        (
            "pod",
            b'{"method":"run","params":{"input":[{"kind":"image","data":"x"}]}}',
            "the input has only segments of unknown kinds",
        ),
        (
            "smooth",
            b'{"action":"send_message","requestId":"r","sessionId":"s","message":"","images":[{"url":"data:,"}]}',
            EMPTY,
        ),
    ],
)
def test_an_empty_input_is_not_translated(source: str, line: bytes, why: str) -> None:
    done = translated(source, "smooth" if source == "pod" else "pod", [line], "--commands")
    assert (done.lines, done.reports, done.code) == (
        [],
        [{"line": 1, "error": "invalid", "text": why}],
        1,
    )


CONNECTING = {"create_conversation_session"}  # to a pod this is connecting to it (docs/translation.md, section 1)


@pytest.mark.parametrize(("source", "target"), [("pod", "smooth"), ("smooth", "pod")])
def test_no_command_is_lost_in_silence(source: str, target: str) -> None:
    for line in MATERIAL[source, True]:
        seen = translated_here(source, target, [line], commands=True)
        silent = seen == ([], [])
        assert not silent or (target == "pod" and json.loads(line)["action"] in CONNECTING), line


# -- all ways ---------------------------------------------------------------------------------------

MATERIAL: dict[tuple[str, bool], list[bytes]] = {
    ("pod", False): [row["wire"].encode() for row in pod_vectors("pod_to_client")],
    ("pod", True): [row["wire"].encode() for row in pod_vectors("client_to_pod")],
    ("smooth", False): [json.dumps(frame).encode() for frame in golden("events")],
    ("smooth", True): [json.dumps(frame).encode() for frame in golden("actions")],
}
"""Dialect and direction -> lines of every kind, bad ones too."""


def translated_here(
    source: str, target: str, lines: list[bytes], *, commands: bool
) -> tuple[list[bytes], list[Report]]:
    out: list[bytes] = []
    reports: list[Report] = []
    numbered: list[tuple[int, Frame]] = list(enumerate(lines, start=1))
    ways = registry.dialect(source), registry.dialect(target)
    good = translate(*ways, numbered, commands=commands, out=out.append, report=reports.append)
    assert good == (not any(report.error for report in reports))
    return out, reports


@settings(max_examples=60, deadline=None)
@given(
    data=st.data(),
    source=st.sampled_from(["pod", "smooth"]),
    target=st.sampled_from(["pod", "smooth"]),
    commands=st.booleans(),
)
def test_any_lines_in_any_order_give_the_same_json_twice(
    data: st.DataObject, source: str, target: str, commands: bool
) -> None:
    known = st.sampled_from([*MATERIAL[source, commands], *MATERIAL[source, not commands]])
    lines = data.draw(st.lists(known | st.binary(max_size=20), max_size=30))
    frames, reports = translated_here(source, target, lines, commands=commands)
    assert translated_here(source, target, lines, commands=commands) == (frames, reports)
    for frame in frames:
        assert isinstance(json.loads(frame), dict)
    assert {report.line for report in reports} <= set(range(1, len(lines) + 1))


@settings(max_examples=30, deadline=None)
@given(data=st.data(), dialect=st.sampled_from(["pod", "smooth"]), commands=st.booleans())
def test_translation_to_the_same_dialect_treats_each_line_alone(
    data: st.DataObject, dialect: str, commands: bool
) -> None:
    lines = data.draw(st.lists(st.sampled_from(MATERIAL[dialect, commands]), max_size=20))
    alone = [frame for line in lines for frame in translated_here(dialect, dialect, [line], commands=commands)[0]]
    assert translated_here(dialect, dialect, lines, commands=commands)[0] == alone


def test_a_command_without_a_form_in_the_target_is_a_loss() -> None:
    done = translated("pod", "smooth", [b'{"method":"pause"}'], "--commands")
    assert (done.lines, done.code) == ([], 0)
    assert [report["loss"]["kind"] for report in done.reports] == ["PauseTurn"]
