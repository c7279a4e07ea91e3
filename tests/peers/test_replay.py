"""The real smooth client against recordings, served by `dragoman replay` as a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from smooth_operator.client import ProtocolError

from tests.gateway.recording.lines import FROZEN
from tests.pairs.recorded import record
from tests.peers.client import connected
from tests.peers.processes import running

pytestmark = pytest.mark.peers

LISTEN = ("--listen", "smooth+ws://127.0.0.1:0/ws", "--speed", "instant")


async def test_a_recording_made_from_a_pod_answers_as_it_did(tmp_path: Path) -> None:
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


async def test_an_input_is_explained_and_what_is_not_recorded_refused(tmp_path: Path) -> None:
    recording = str(FROZEN / "v1.jsonl")
    async with running("replay", recording, *LISTEN, "--explain") as process, connected(process.url) as client:
        with pytest.raises(ProtocolError, match="the recording has nothing like it"):
            await client.say("Tell me a joke")
        turn = client.say("Grüße  🦀")
        await turn
        assert client.tokens(turn.request_id) == "Two lines."
    told = "\n".join(process.log)
    assert "submit_input Tell me a joke: refused, the recording has nothing like it" in told
    assert "submit_input Grüße 🦀: matched with input 1 (same)" in told
