"""The real smooth client against recordings that `dragoman replay` serves as a process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from smooth_operator.client import ProtocolError

from dragoman.gateway.recording.reader import open_recording
from dragoman.mappings.canonical.commands import SubmitInput
from dragoman.mappings.canonical.events import TurnEnded
from dragoman.mappings.canonical.values import flatten
from tests.gateway.recording.lines import FROZEN, commands_of
from tests.pairs.recorded import record
from tests.peers.processes import running
from tests.peers.real_smooth_client import connected
from tests.shared import SHARED, needs_shared

pytestmark = pytest.mark.peers

LISTEN = ("--listen", "smooth+ws://127.0.0.1:0/ws", "--speed", "instant")


async def test_a_recording_of_a_pod_replays_its_answers(tmp_path: Path) -> None:
    recording = await record("pod", "pod", tmp_path)
    async with running("replay", str(recording), *LISTEN) as process, connected(process.url) as client:
        turn = client.say("Where is my order?")
        await turn
        assert client.tokens(turn.request_id).startswith("Let me look that up. Order A-1042 has shipped")
        kinds = client.kinds(turn.request_id)
        assert (kinds[0], kinds[-1]) == ("immediate_response", "eventual_response")
        assert {"stream_reasoning", "stream_chunk", "stream_token"} <= set(kinds)
        page = await client.smooth.get_messages(session_id=client.session)
        assert [message.direction.value for message in page.messages] == ["outbound", "inbound"]


async def test_a_match_is_explained_and_an_unrecorded_input_refused(tmp_path: Path) -> None:
    recording = str(FROZEN / "v4.jsonl")
    async with running("replay", recording, *LISTEN, "--explain") as process, connected(process.url) as client:
        with pytest.raises(ProtocolError, match="the recording has no similar input"):
            await client.say("Tell me a joke")
        turn = client.say("Grüße  🦀")
        await turn
        assert client.tokens(turn.request_id) == "Two lines."
    told = "\n".join(process.log)
    assert "submit_input Tell me a joke: refused, the recording has no similar input" in told
    assert "submit_input Grüße 🦀: matched with input 1 (same)" in told


async def test_a_missing_turn_is_recorded_and_replayed_the_next_time(tmp_path: Path) -> None:
    recording = tmp_path / "session.jsonl"
    recording.write_bytes((FROZEN / "v4.jsonl").read_bytes())
    live = f"pod+unix:{tmp_path}/sock"
    async with running("demo-backend", live):
        options = ("--mode", "record-missing", "--upstream", live)
        async with running("replay", str(recording), *LISTEN, *options) as process, connected(process.url) as client:
            await client.say("count 5")
            await client.say("Grüße 🦀")
        assert process.log[-1] == f"added 1 turn to {recording}"
    async with running("replay", str(recording), *LISTEN) as process, connected(process.url) as client:
        for text, answer in (("Grüße 🦀", "Two lines."), ("count 5", "0 1 2 3 4 ")):
            turn = client.say(text)
            await turn
            assert client.tokens(turn.request_id) == answer
    assert not (tmp_path / "session.jsonl.missing").exists()


@pytest.fixture
def imported(tmp_path: Path) -> Callable[[str], str]:
    """Import the captures of the real client and the real server as recordings."""

    def make(name: str) -> str:
        assert SHARED is not None
        recording, capture = tmp_path / f"{name}.jsonl", SHARED / "smooth-operator" / "captures" / f"{name}.jsonl"
        program = (sys.executable, "-m", "dragoman", "import", str(capture))
        subprocess.run([*program, "--dialect", "smooth", "-o", str(recording)], check=True, timeout=50)
        return str(recording)

    return make


@needs_shared
async def test_a_captured_conversation_can_be_replayed(imported: Callable[[str], str]) -> None:
    recording = imported("01-basic-turns-history")
    texts = [flatten(c.segments) for c in commands_of(open_recording(Path(recording))) if isinstance(c, SubmitInput)]
    told = (line.event for line in open_recording(Path(recording)).events())
    ends = [event.text for event in told if isinstance(event, TurnEnded)]
    async with running("replay", recording, *LISTEN) as process, connected(process.url) as client:
        for text, answer in zip(texts, ends, strict=True):
            turn = client.say(text)
            await turn
            assert client.tokens(turn.request_id) == answer


@needs_shared
async def test_a_captured_confirmation_is_requested_again(imported: Callable[[str], str]) -> None:
    recording = imported("03-confirm-approve")
    (text,) = [flatten(c.segments) for c in commands_of(open_recording(Path(recording))) if isinstance(c, SubmitInput)]
    async with running("replay", recording, *LISTEN) as process, connected(process.url) as client:
        turn = client.say(text)
        await client.until("write_confirmation_required")
        client.smooth.confirm_tool_action(session_id=client.session, request_id=turn.request_id, approved=True)
        final = await turn
        assert "".join(final.data.data.response["responseParts"]) == client.tokens(turn.request_id) != ""
