"""The fixtures as users' tests use them; docs/replay.md shows the first of these."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import tomli

from dragoman.gateway.recording.reader import open_recording
from dragoman.mappings.canonical.events import TextDelta
from tests.gateway.recording.lines import in_parts
from tests.gateway.replay.recording_builder import RecordingBuilder

ROOT = Path(__file__).resolve().parents[3]

CLIENT = """
import asyncio
import json
import aiohttp

async def _ask(url, text):
    async with aiohttp.ClientSession() as http, http.ws_connect(url) as socket:
        await socket.send_json({"action": "create_conversation_session", "requestId": "open", "agentId": "a" * 8})
        session = (await socket.receive_json())["data"]["sessionId"]
        await socket.send_json(
            {"action": "send_message", "requestId": "turn", "sessionId": session, "message": text})
        answer = ""
        async for frame in socket:
            event = json.loads(frame.data)
            if event["type"] == "stream_token":
                answer += event["token"]
            if event["type"] in ("eventual_response", "error"):
                return answer, event["type"]

def ask(url, text):
    return asyncio.run(_ask(url, text))
"""


NO_SOCKET = "the socket does not exist; start the backend, or correct the path"

USERS_TESTS = """
from client import ask

def test_a_client_gets_the_recorded_answer(dragoman_replay):
    backend = dragoman_replay("recordings/order.jsonl", "smooth")
    assert ask(backend.url, "Where is my order?") == ("On its way.", "eventual_response")
    assert [report.outcome for report in backend.reports] == ["exact"]

def test_a_client_uses_a_recording_in_parts(dragoman_replay):
    backend = dragoman_replay("recordings/parts.1.jsonl", "smooth")
    assert ask(backend.url, "Where is my order?") == ("On its way.", "eventual_response")

def test_a_recording_in_parts_is_driven(dragoman_drive):
    dragoman_drive("recordings/parts.1.jsonl", "replay+file:recordings/parts.jsonl?speed=instant")

def test_an_unused_replay(dragoman_replay):
    dragoman_replay("recordings/order.jsonl", "smooth")

def test_an_unused_replay_that_is_not_strict(dragoman_replay):
    dragoman_replay("recordings/order.jsonl", "smooth", strict=False)

def test_an_input_that_differs(dragoman_replay):
    ask(dragoman_replay("recordings/order.jsonl", "smooth").url, "Where is my invoice, please?")

def test_an_input_that_differs_from_a_replay_that_is_not_strict(dragoman_replay):
    ask(dragoman_replay("recordings/order.jsonl", "smooth", strict=False).url, "Where is my invoice, please?")

def test_a_backend_that_answers_as_recorded(dragoman_replay, dragoman_drive):
    backend = dragoman_replay("recordings/order.jsonl", "pod")
    assert dragoman_drive("recordings/order.jsonl", backend.endpoint).turns == 1

def test_a_backend_that_answers_otherwise(dragoman_replay, dragoman_drive):
    backend = dragoman_replay("recordings/lost.jsonl", "pod")
    dragoman_drive("recordings/order.jsonl", backend.endpoint)

def test_a_recording_without_turns(dragoman_drive):
    dragoman_drive("recordings/empty.jsonl", "replay+file:recordings/order.jsonl?speed=instant")

def test_a_recording_that_is_missing(dragoman_replay):
    dragoman_replay("recordings/none.jsonl", "smooth")

def test_a_dialect_that_is_unknown(dragoman_replay):
    dragoman_replay("recordings/order.jsonl", "smoth")

def test_a_backend_that_is_missing(dragoman_drive):
    dragoman_drive("recordings/order.jsonl", "pod+unix:x")
"""


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Run the tests of a user's project, all in one process; return why each of them failed, "" for one that passed."""
    project = tmp_path_factory.mktemp("project")
    recordings = project / "recordings"
    recordings.mkdir()
    order = (
        RecordingBuilder().turn("Where is my order?", TextDelta(text="On its way.")).write(recordings, "order.jsonl")
    )
    RecordingBuilder().turn("Where is my order?", TextDelta(text="Lost.")).write(recordings, "lost.jsonl")
    RecordingBuilder().sends(TextDelta(text="1")).write(recordings, "empty.jsonl")
    in_parts(recordings / "parts.jsonl", list(open_recording(order).lines()), 4)
    (project / "client.py").write_text(CLIENT)
    (project / "test_client.py").write_text(USERS_TESTS)
    plugins = ("-p", "no:dragoman", "-p", "dragoman.pytest_plugin")  # installed or not, it is loaded once
    subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "-p", "no:cacheprovider", "--junitxml=results.xml"],
        cwd=project,
        # The search for other plugins takes longer than the tests.
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=False,  # some of the tests must fail
        timeout=50,
    )
    cases = ElementTree.parse(project / "results.xml").iter("testcase")
    return {case.attrib["name"]: "\n".join(problem.text or "" for problem in case) for case in cases}


@pytest.mark.parametrize(
    "test",
    [
        "test_a_client_gets_the_recorded_answer",
        "test_a_client_uses_a_recording_in_parts",
        "test_a_recording_in_parts_is_driven",
        "test_an_unused_replay_that_is_not_strict",
        "test_an_input_that_differs_from_a_replay_that_is_not_strict",
        "test_a_backend_that_answers_as_recorded",
    ],
)
def test_a_test_of_a_user_passes(test: str, failures: dict[str, str]) -> None:
    assert failures[test] == ""


def test_a_replay_that_no_client_used_fails_the_test(failures: dict[str, str]) -> None:
    text = "no client sent a command to the replay of recordings/order.jsonl"
    assert text in failures["test_an_unused_replay"]


def test_a_recording_without_turns_fails_the_test(failures: dict[str, str]) -> None:
    assert "has no turn that a client began: nothing can be driven" in failures["test_a_recording_without_turns"]


def test_an_input_that_differs_from_the_recording_fails_the_test_with_the_nearest_one(
    failures: dict[str, str],
) -> None:
    nearest = (
        r"sent and not recorded:\n"
        r"submit_input Where is my invoice, please\?: refused, the recording has no similar input\n"
        r"  candidate 1: submit_input Where is my order\?, \d+% alike\n"
        r"    text: recorded 'Where is my order\?', said 'Where is my invoice, please\?'"
    )
    assert re.search(nearest, failures["test_an_input_that_differs"])


def test_a_backend_that_differs_from_its_recording_fails_the_test(failures: dict[str, str]) -> None:
    assert (
        "answers otherwise than recordings/order.jsonl (-):\nturn 1: text\n- On its way.\n+ Lost."
        in failures["test_a_backend_that_answers_otherwise"]
    )


@pytest.mark.parametrize(
    ("test", "text"),
    [
        ("test_a_recording_that_is_missing", "recordings/none.jsonl: No such file or directory"),
        ("test_a_dialect_that_is_unknown", "'smoth': write an endpoint, or one of smooth, pod, pando, codewhale"),
        ("test_a_backend_that_is_missing", f"the backend cannot be reached: {NO_SOCKET} (pod+unix:x)"),
    ],
)
def test_an_error_that_the_user_can_mend_fails_the_test_without_our_traceback(
    test: str, text: str, failures: dict[str, str]
) -> None:
    assert failures[test] == text


def test_pytest_finds_it_by_its_entry_point() -> None:
    project = tomli.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"dragoman": "dragoman.pytest_plugin"}
    assert not any(dependency.startswith("pytest") for dependency in project["dependencies"])


def test_only_the_plugin_imports_pytest() -> None:
    importing = re.compile(rb"^\s*(import|from) pytest\b", re.MULTILINE)
    packages = ("dragoman", "mappings", "adapters", "gateway")
    files = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    found = [path.name for path in files if importing.search(path.read_bytes())]
    assert found == ["pytest_plugin.py"]


def test_the_plugin_imports_dragoman_only_when_a_test_uses_a_fixture() -> None:
    program = (
        "import sys, dragoman.pytest_plugin; assert not {'dragoman.gateway', 'dragoman.mappings'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, timeout=50)
