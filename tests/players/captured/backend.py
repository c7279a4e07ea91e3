"""Recorded backends, played in memory in their recorded order and chunks.

The backend goes through a recording step by step. It sends the recorded frames, with the ids of the actual requests.
Recorded frames of the client are repeated by `driver`, a client of any dialect. If that dialect has no such request, it
is skipped, and the gateway sees its effects as those of another client. Requests that the gateway sends by itself are
answered as in the recording, or as the dialect's page in docs/dialects says.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from dragoman.gateway.session.session import Session
from tests.dialects import parts
from tests.gateway.in_memory import InMemoryPeer
from tests.idle import settle
from tests.oracle.base import Said
from tests.players.capture_readers import Turn, turns_of
from tests.players.capture_variants import BURST
from tests.players.captures import Message, messages
from tests.players.clients import InMemoryClient
from tests.players.in_memory import AnyBackendGateway

Frame = dict[str, Any]
Hook = Callable[[int], Awaitable[None]]


class CapturedBackend:
    """A recording played by a backend of its dialect: `recorded` is sent in one of several variants, in these
    `steps`.
    """

    dialect: str

    def __init__(self, number: str, manner: str = "") -> None:
        self.recorded = self._chosen(messages(self.dialect, number))
        variant = parts(self.dialect).capture_variants.get(manner, list)
        self.steps = list(variant(self.recorded))
        self._burst = manner == BURST
        self.stage: AnyBackendGateway
        self.driver: InMemoryClient
        self._heard: dict[int, int] = {}  # connection -> the number of its frames that were read

    @classmethod
    def plays(cls, number: str) -> bool:
        """Return True if any part of this recording can be played."""
        return True

    def _chosen(self, recorded: tuple[Message, ...]) -> list[Message]:
        return [message for message in recorded if message.conn == "a" and message.value is not None]

    # -- the content of the recording ------------------------------------------------------------------

    def turns(self) -> list[Turn]:
        """Return the turns that the recording shows."""
        return turns_of(self.dialect, ((message.way, message.value) for message in self.recorded))

    def upto(self, step: int) -> list[Turn]:
        """Return the turns that began before this step."""
        return turns_of(self.dialect, ((message.way, message.value) for message in self.steps[:step]))

    def history(self) -> list[Said]:
        """Return the messages by the end of the recording, each with its speaker."""
        raise NotImplementedError

    def kept(self) -> list[Said] | None:
        """Return what a pod client that connects at the end receives, if that is not the whole history."""
        return None

    def middle(self) -> int:
        """Return the step after the second piece of the longest answer, or before its end if it has a single piece."""
        answers: list[list[int]] = [[]]
        for at, message in enumerate(self.steps):
            if message.way == "got" and self.is_text(message.value):
                answers[-1].append(at)
            elif message.way == "got" and self.is_end(message.value):
                answers[-1].append(at)
                answers.append([])
        longest = max(answers, key=len)
        return longest[1] + 1 if len(longest) > 2 else longest[-1]

    @staticmethod
    def is_text(frame: Frame) -> bool:
        """Return True if this is a piece of an answer, or a question in its middle."""
        raise NotImplementedError

    @staticmethod
    def is_end(frame: Frame) -> bool:
        """Return True if this ends an answer."""
        raise NotImplementedError

    # -- playing ---------------------------------------------------------------------------------------

    async def play(self, before: Hook) -> None:
        """Play all steps; `before` is called with the number of each."""
        for at, message in enumerate(self.steps):
            await before(at)
            if message.way == "got":
                self.say(message)
                if not self._burst:
                    await settle()
                    self._answer_news()
            else:
                await self.rest()
                self.bring_about(message)
                await self.rest()
        await before(len(self.steps))
        await self.rest()

    async def rest(self) -> None:
        """Run until the gateway sends no more requests."""
        for peer in self.stage.pods:
            peer.transport.join_pieces()
        await settle()
        while self._answer_news():
            await settle()

    def _answer_news(self) -> bool:
        """Answer the gateway's new requests; return False if there were none."""
        news = False
        for number, peer in enumerate(self.stage.pods):
            frames = peer.transport.got[self._heard.get(number, 0) :]
            self._heard[number] = len(peer.transport.got)
            for frame in frames:
                news = True
                self.asked(peer, json.loads(frame))
        return news

    async def opened(self) -> Session:
        """Let the driver open its conversation; return it."""
        await self.driver.open()
        await self.rest()
        assert self.driver.session is not None
        return self.driver.session

    def say(self, message: Message) -> None:
        """Send what the recorded backend sent."""
        raise NotImplementedError

    def bring_about(self, message: Message) -> None:
        """Make the driver repeat what the recorded client did, if its dialect can."""
        raise NotImplementedError

    def asked(self, peer: InMemoryPeer, frame: Frame) -> None:
        """Handle a frame that the gateway sent."""
        raise NotImplementedError
