"""Each recorded pod conversation, played in its recorded order, reaches a smooth client with the same text, tools and
ends.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.pairs.gateway import DEADLINE, SmoothClient, bridged
from tests.pairs.pod_player import PodPlayer, Recording, Turn

CAPTURES = sorted((Path(__file__).parent.parent / "data" / "captures" / "pod").glob("*.jsonl"))

END_OF = {
    "finished": "eventual_response",
    "limit_reached": "eventual_response",
    "paused": "cancelled",
    "rolled_back": "cancelled",
    "cancelled": "cancelled",
    "failed": "error",
}


def seen(client: SmoothClient) -> list[Turn]:
    """The turns that the client was shown, read off its frames alone."""
    turns: list[Turn] = []
    for terminal in client.terminals():
        request = terminal["requestId"]
        turn = Turn(calls=[], results=[], end=terminal["type"], ours=request.startswith("r"))
        for frame in client.of(request):
            match frame["type"]:
                case "stream_token":
                    turn.text += frame["token"]
                case "stream_reasoning":
                    turn.reasoning += frame["token"]
                case "stream_chunk":
                    _chunk(turn, frame["data"]["state"]["rawResponse"])
        if terminal["type"] == "eventual_response":
            assert "".join(terminal["data"]["data"]["response"]["responseParts"]) == turn.text
        assert client.of(request)[-1] is terminal, "nothing of a turn after its end"
        turns.append(turn)
    return turns


def _chunk(turn: Turn, raw: dict[str, Any]) -> None:
    if "toolCall" in raw:
        turn.calls.append((raw["toolCall"]["name"], raw["toolCall"]["arguments"]))
    else:
        turn.results.append(raw["toolResult"]["result"])


def test_there_are_captures() -> None:
    assert len(CAPTURES) >= 9


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
async def test_a_smooth_client_sees_the_recorded_conversation(path: Path, tmp_path: Path) -> None:
    recording = Recording(path)
    player = PodPlayer(recording, tmp_path / "sock")
    async with (
        player.serving(),
        bridged(f"pod+unix:{tmp_path}/sock") as (_, url),
        SmoothClient.connected(url) as client,
    ):

        async def say(text: str, ended: int) -> None:
            await client.until(lambda: len(client.terminals()) >= ended)
            await client.say(text)

        async def cancel() -> None:
            await client.send({"action": "cancel", "sessionId": client.session})

        player.say, player.cancel = say, cancel
        async with asyncio.timeout(DEADLINE):
            await player.done.wait()
        expected = [turn for turn in recording.expected() if turn.end]  # a recorded client may leave in mid-turn
        await client.until(lambda: len(client.terminals()) >= len(expected))
        shown = seen(client)
    assert [END_OF[turn.end] for turn in expected] == [turn.end for turn in shown]
    for told, got in zip(expected, shown, strict=True):
        assert got.text == told.text
        assert got.reasoning == told.reasoning
        assert got.results == told.results
        assert got.calls[: len(told.calls)] == told.calls
        assert got.ours == told.ours
