"""Two gateways in series: the pod listener of one is the pod upstream of the other, which adds and loses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.dialects import parts
from tests.gateway.in_memory import LIMITS, POD, InMemoryGateway, InMemoryPeer
from tests.gateway.pod_messages import FINISHED, delta, done, echo, run, say, snapshot, status
from tests.gateway.smooth_server_messages import CREATED, acknowledged, answered, confirmation, said, taken
from tests.idle import settle

Frame = dict[str, Any]


class Series:
    """Two gateways: `near` serves the pod client `p`, and `far` has the backend."""

    def __init__(self, group: asyncio.TaskGroup, upstream: str) -> None:
        self.near = InMemoryGateway(group, LIMITS, "coalesce", POD)
        self.far = InMemoryGateway(group, LIMITS, "coalesce", parts(upstream).upstream)
        self.links: list[InMemoryPeer] = []  # those of the near gateway at the far one, one for each connection
        self._carried = [0, 0]
        self.one_by_one = False
        """True if each frame of the far gateway is read alone, as a socket may deliver them."""
        self.lost_method = b""
        """A method that contains these bytes does not reach the far gateway."""

    async def carry(self) -> None:
        """Pass frames between both gateways until neither sends any."""
        while True:
            await settle()
            if len(self.near.pods) > len(self.links):
                self.links.append(self.far.join(f"near {len(self.links)}", dialect="pod"))
                self._carried = [0, 0]
                continue
            down, up = self.links[-1].transport.got, self.near.pod.transport.got
            news = down[self._carried[0] :], up[self._carried[1] :]
            if not any(news):
                return
            self._carried = [len(down), len(up)]
            for frames in ([frame] for frame in news[0]) if self.one_by_one else [news[0]] if news[0] else ():
                await self.near.pod.says(*frames)
            for frame in news[1]:
                if not self.lost_method or self.lost_method not in frame:
                    self.links[-1].sends(frame)

    async def backend(self, *frames: Frame) -> None:
        """Send these frames as the backend."""
        self.far.pod.sends(*frames)
        await self.carry()

    async def client(self, frame: Frame) -> None:
        """Send these frames as the client."""
        self.near.clients["p"].sends(frame)
        await self.carry()

    async def severed(self) -> None:
        """Lose the connection between both gateways."""
        self.near.pod.transport.hang_up()
        self.near.pod.gone = True
        self.links[-1].transport.hang_up()
        await self.carry()

    def asked(self, action: str) -> str:
        """Return the request id of the last action to a smooth server."""
        return str([f for f in self.far.pod.frames() if f["action"] == action][-1]["requestId"])

    def client_events(self, *names: str) -> list[Frame]:
        """Return the events with these names that the client received."""
        return [frame for frame in self.near.clients["p"].frames() if frame["event"] in names]

    def texts(self) -> list[str]:
        """Return the complete text blocks that the client received."""
        return [frame["data"]["text"] for frame in self.client_events("text_done")]


@asynccontextmanager
async def series(upstream: str = "pod") -> AsyncIterator[Series]:
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        made = Series(group, upstream)
        made.near.join("p", dialect="pod")
        await made.carry()
        yield made
        assert made.near.gaps == 0, made.near.ledger.entries()
        for stage in (made.near, made.far):
            await stage.end()


TURN = say("turn_start", turn=0)
END = (say("turn_end", turn=0, result="finished"), *FINISHED)


async def test_a_turn_of_several_blocks_is_the_same_through_two_gateways() -> None:
    async with series() as made:
        await made.backend(snapshot())
        await made.client(run("Hi"))
        await made.backend(echo("Hi"), status("running"), TURN, delta("One"), done("One"))
        await made.backend(say("thinking_start"), say("thinking_delta", text="hm"), say("thinking_done", text="hm"))
        await made.backend(delta("Tw"), delta("o"), done("Two"), *END)
        assert made.texts() == ["One", "Two"]


async def test_a_block_closed_with_more_text_or_not_at_all_is_no_contradiction_through_two_gateways() -> None:
    async with series() as made:
        await made.backend(snapshot())
        await made.client(run("Hi"))
        await made.backend(echo("Hi"), status("running"), TURN, delta("On"), done("One"), delta("Two"))
        await made.backend(say("tool_call_start", id="c", name="ls"), delta("Three"), *END)
        assert made.texts() == ["One", "Two", "Three"]


@pytest.mark.parametrize("one_by_one", [True, False])
async def test_a_gateway_reconnected_in_the_middle_of_a_block_sends_its_text_once(one_by_one: bool) -> None:
    async with series() as made:
        made.one_by_one = one_by_one
        await made.backend(snapshot())
        await made.client(run("Hi"))
        await made.backend(echo("Hi"), status("running"), TURN)
        await made.backend(delta("Hel"))
        await made.backend(delta("lo "))
        await made.severed()
        await made.backend(delta("wor"), delta("ld"), done("Hello world"), *END)
        assert made.texts() == ["Hello world"]
        assert "".join(frame["data"]["text"] for frame in made.client_events("text_delta")) == "Hello world"


async def test_a_question_in_words_is_no_contradiction_through_two_gateways() -> None:
    async with series("smooth") as made:
        turn = await approved(made)
        await made.backend(acknowledged(made.asked("confirm_tool_action")), said(turn, "Done."))
        await made.backend(answered(turn, "Let me see.Done."))
        first, question, last = made.texts()
        assert (first, last) == ("Let me see.", "Done.")
        assert question.startswith("\n\n")


async def test_received_blocks_and_calls_are_not_sent_again() -> None:
    async with series() as made:
        await made.backend(snapshot())
        await made.client(run("Hi"))
        await made.backend(echo("Hi"), status("running"), TURN, delta("One"), done("One"), *called("c"))
        await made.severed()
        await made.backend(say("tool_result", id="c", summary="s", is_error=False), delta("Two"), done("Two"), *END)
        names = [f["event"] for f in made.near.clients["p"].frames()]
        assert made.texts() == ["One", "Two"]
        assert [names.count(name) for name in ("tool_call_start", "tool_call_done", "tool_result")] == [1, 1, 1]


async def test_content_of_the_interruption_is_sent_after_the_received_content() -> None:
    async with series() as made:
        await made.backend(snapshot())
        await made.client(run("Hi"))
        await made.backend(echo("Hi"), status("running"), TURN, delta("On"))
        made.far.pod.sends(delta("e"), done("One"), *called("c"))
        await made.severed()
        await made.backend(delta("Two"), done("Two"), *END)
        assert made.texts() == ["One", "Two"]


def called(call: str) -> tuple[Frame, ...]:
    """Return the events of a whole tool call."""
    return say("tool_call_start", id=call, name="ls"), say("tool_call_done", id=call, name="ls", arguments="{}")


async def approved(made: Series) -> str:
    """Bring the client to a question in words and approve it; return the turn at the smooth server."""
    await made.client(run("Delete it"))
    await made.backend(acknowledged(made.asked("create_conversation_session"), **CREATED))
    turn = made.asked("send_message")
    await made.backend(taken(turn), said(turn, "Let me see."), confirmation(turn))
    await made.client(run("approve"))
    return turn


async def test_a_turn_goes_on_whose_connection_is_lost_behind_a_question_in_words() -> None:
    async with series("smooth") as made:
        turn = await approved(made)
        await made.backend(acknowledged(made.asked("confirm_tool_action")), said(turn, "Do"))
        await made.severed()
        await made.backend(said(turn, "ne."), answered(turn, "Let me see.Done."))
        first, _question, last = made.texts()
        assert (first, last) == ("Let me see.", "Done.")
        assert made.client_events("error", "segment_rotated") == []


async def test_a_turn_behind_a_question_in_words_ends_with_what_it_said_while_the_connection_was_lost() -> None:
    async with series("smooth") as made:
        turn = await approved(made)
        await made.backend(acknowledged(made.asked("confirm_tool_action")), said(turn, "Do"))
        made.far.pod.sends(said(turn, "ne."), answered(turn, "Let me see.Done."))
        await made.severed()
        assert made.texts()[-1] == "Done."
        assert made.client_events("error") == []
        assert made.client_events("run_end")[-1] == say("run_end", result="finished")


async def test_a_question_is_shown_again_whose_answer_in_words_was_lost_with_its_connection() -> None:
    async with series("smooth") as made:
        made.lost_method = b"approve"
        await approved(made)
        await made.severed()
        assert made.client_events("error") == []
        _first, question, again = made.texts()
        assert question == again
        assert [frame["data"]["status"] for frame in made.client_events("status")[-2:]] == ["running", "paused"]


@pytest.mark.parametrize("ended", [False, True])
async def test_an_answer_in_words_that_arrived_before_the_connection_was_lost_begins_its_run(*, ended: bool) -> None:
    async with series("smooth") as made:
        turn = await approved(made)
        made.far.pod.sends(acknowledged(made.asked("confirm_tool_action")), said(turn, "Do"))
        rest = said(turn, "ne."), answered(turn, "Let me see.Done.")
        if ended:
            made.far.pod.sends(*rest)
        await made.severed()
        await made.backend(*(() if ended else rest))
        assert made.texts()[2:] == ["Done."]
        assert made.client_events("error") == []


async def test_an_answer_in_words_that_the_backend_takes_after_the_connection_was_lost_continues_the_turn() -> None:
    async with series("smooth") as made:
        turn = await approved(made)
        await made.severed()
        await made.backend(acknowledged(made.asked("confirm_tool_action")), answered(turn, "Let me see.Done."))
        assert made.texts()[-1] == "Done."
        assert made.client_events("error") == []
        assert made.client_events("run_end")[-1] == say("run_end", result="finished")
