"""The fixtures as users' tests use them; docs/replay.md shows the first of these."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import tomli

from dragoman.gateway.recording.reader import open_recording
from dragoman.mappings.canonical.events import TextDelta
from tests.gateway.recording.lines import in_parts
from tests.gateway.replay.recording_builder import RecordingBuilder

pytest_plugins = ["pytester"]

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


@pytest.fixture
def user(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Create a project with a recording and a client under test."""
    pytester.makepyfile(client=CLIENT)
    folder = pytester.mkdir("recordings")
    RecordingBuilder().turn("Where is my order?", TextDelta(text="On its way.")).write(folder, "order.jsonl")
    RecordingBuilder().turn("Where is my order?", TextDelta(text="Lost.")).write(folder, "lost.jsonl")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # loading them takes longer than the tests
    return pytester


def outcome(user: pytest.Pytester, test: str) -> pytest.RunResult:
    user.makepyfile(test)
    plugins = ("-p", "no:dragoman", "-p", "dragoman.pytest_plugin")  # installed or not, it is loaded once
    return user.runpytest_subprocess(*plugins, "-p", "no:cacheprovider")


def test_a_replay_that_no_client_used_fails_the_test(user: pytest.Pytester) -> None:
    result = outcome(
        user,
        """
        def test_nothing(dragoman_replay):
            dragoman_replay("recordings/order.jsonl", "smooth")

        def test_nothing_on_purpose(dragoman_replay):
            dragoman_replay("recordings/order.jsonl", "smooth", strict=False)
        """,
    )
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*no client sent a command to the replay of recordings/order.jsonl*"])


def test_a_recording_without_turns_fails_the_test(user: pytest.Pytester) -> None:
    RecordingBuilder().sends(TextDelta(text="1")).write(user.path / "recordings", "empty.jsonl")
    result = outcome(
        user,
        """
        def test_nothing(dragoman_drive):
            dragoman_drive("recordings/empty.jsonl", "replay+file:recordings/order.jsonl?speed=instant")
        """,
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*has no turn that a client began: nothing can be driven*"])


def test_a_client_is_tested_against_a_recording(user: pytest.Pytester) -> None:
    outcome(
        user,
        """
        from client import ask

        def test_the_client_shows_the_answer(dragoman_replay):
            backend = dragoman_replay("recordings/order.jsonl", "smooth")
            assert ask(backend.url, "Where is my order?") == ("On its way.", "eventual_response")
            assert [report.outcome for report in backend.reports] == ["exact"]
        """,
    ).assert_outcomes(passed=1)


def test_both_fixtures_accept_a_recording_in_parts(user: pytest.Pytester) -> None:
    whole = user.path / "recordings" / "order.jsonl"
    in_parts(whole.with_name("parts.jsonl"), list(open_recording(whole).lines()), 4)
    outcome(
        user,
        """
        from client import ask

        def test_the_client(dragoman_replay):
            backend = dragoman_replay("recordings/parts.1.jsonl", "smooth")
            assert ask(backend.url, "Where is my order?") == ("On its way.", "eventual_response")

        def test_the_agent(dragoman_drive):
            dragoman_drive("recordings/parts.1.jsonl", "replay+file:recordings/parts.jsonl?speed=instant")
        """,
    ).assert_outcomes(passed=2)


def test_an_input_that_differs_from_the_recording_fails_the_test_with_the_nearest_one(user: pytest.Pytester) -> None:
    result = outcome(
        user,
        """
        from client import ask

        def test_the_client_asks(dragoman_replay):
            ask(dragoman_replay("recordings/order.jsonl", "smooth").url, "Where is my invoice, please?")

        def test_one_that_may_say_anything(dragoman_replay):
            ask(dragoman_replay("recordings/order.jsonl", "smooth", strict=False).url, "Where is my invoice, please?")
        """,
    )
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(
        [
            "sent and not recorded:",
            "submit_input Where is my invoice, please?: refused, the recording has nothing like it",
            "  candidate 1: submit_input Where is my order?, * alike",
            "    text: recorded 'Where is my order?', said 'Where is my invoice, please?'",
        ]
    )


def test_a_backend_that_differs_from_its_recording_fails_the_test(user: pytest.Pytester) -> None:
    result = outcome(
        user,
        """
        def test_one_that_does_the_same(dragoman_replay, dragoman_drive):
            backend = dragoman_replay("recordings/order.jsonl", "pod")
            assert dragoman_drive("recordings/order.jsonl", backend.endpoint).turns == 1

        def test_one_that_does_not(dragoman_replay, dragoman_drive):
            backend = dragoman_replay("recordings/lost.jsonl", "pod")
            dragoman_drive("recordings/order.jsonl", backend.endpoint)
        """,
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["*answers otherwise than recordings/order.jsonl (-):", "turn 1: text", "- On its way.", "+ Lost."]
    )


def test_pytest_finds_it_by_its_entry_point() -> None:
    project = tomli.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"dragoman": "dragoman.pytest_plugin"}
    assert not any(dependency.startswith("pytest") for dependency in project["dependencies"])


EVERY_COMMAND = """
import sys
sys.modules["pytest"] = None
from dragoman.gateway.cli.program import COMMANDS, load_command
for command in COMMANDS:
    load_command(command)
"""


@pytest.mark.parametrize(
    "program",
    [
        EVERY_COMMAND,
        "import sys, dragoman.pytest_plugin; assert not {'dragoman.gateway', 'dragoman.mappings'} & {*sys.modules}",
    ],
)
def test_the_plugin_imports_dragoman_only_when_a_test_uses_a_fixture(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, timeout=50)
