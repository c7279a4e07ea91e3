"""A replay of a recording: its backend, a client that drives it, and clients that join before, during and after."""

from __future__ import annotations

from msgspec import Struct, field, structs

from tests.dialects import parts
from tests.oracle.base import Said
from tests.pairs.table import DIALECTS, must_see
from tests.players.capture_readers import Turn
from tests.players.clients import InMemoryClient
from tests.players.in_memory import any_backend_gateway

ENDS = {"completed": "an answer ends", "failed": "a failure ends", "cancelled": "a cancel ends"}


def visible(turn: Turn, client: str, backend: str) -> Turn:
    """Return a turn as a client of this dialect can see it of a backend of that one."""
    if client == "codewhale" and turn.end != "completed":  # an error has no events
        turn = structs.replace(turn, thought="", calls=[], results=[])
    thought = turn.thought if must_see("reasoning", client, backend) == "whole" else ""
    return structs.replace(turn, thought=thought, end=must_see(ENDS[turn.end], client, backend) if turn.end else "")


class ShownToClient(Struct):
    """The turns that one client was shown, the history at the end, and the faults in their order."""

    turns: list[Turn]
    history: list[Said]
    illegal: str = ""


class CapturedPlay(Struct):
    """The recorded turns, and those that each client was shown, by the time it joined and by its dialect. `middle` is
    the number of the turn in which clients joined. `kept` is what pods send where a history was compacted.
    """

    turns: list[Turn]
    history: list[Said]
    kept: list[Said] | None = None
    middle: int = 0
    shown: dict[tuple[str, str], ShownToClient] = field(default_factory=dict)


async def played(backend: str, number: str, driver: str, manner: str = "") -> CapturedPlay:
    """Return the play of a recording in this variant, driven by a client of dialect `driver` that repeats the recorded
    inputs.
    """
    recorded = parts(backend).captured_backend(number, manner)
    play = CapturedPlay(recorded.turns(), recorded.history(), recorded.kept())
    middle = recorded.steps[recorded.middle()]
    audience: dict[tuple[str, str], InMemoryClient] = {}
    async with any_backend_gateway(backend) as stage:
        recorded.stage, stage.rest = stage, recorded.rest
        recorded.driver = audience["driver", driver] = parts(driver).in_memory_client(stage, f"driver-{driver}")
        session = await recorded.opened()

        async def connects(when: str) -> None:
            for dialect in DIALECTS:
                client = audience[when, dialect] = parts(dialect).in_memory_client(stage, f"{when}-{dialect}")
                await client.join(session)

        async def before(at: int) -> None:
            if at == 0:
                await connects("before")
            elif at < len(recorded.steps) and recorded.steps[at] is middle:
                await recorded.rest()
                play.middle = len(recorded.upto(at)) - 1
                await connects("middle")

        await recorded.play(before)
        await connects("after")
        for key, client in audience.items():
            play.shown[key] = ShownToClient(client.turns(), [], client.unanswered()[1])
            play.shown[key].history = await client.history()
    return play
