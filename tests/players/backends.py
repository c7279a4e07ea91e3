"""Recorded backends, played in memory in their recorded order and chunks.

A play goes through a recording step by step. What the backend said is said, with the ids that really were asked under.
What its client said is brought about by `driver`, a client of any dialect, where that dialect has words for it; else
it is passed over, and what comes of it is another client's doing to the gateway. What the gateway asks on its own is
answered as the recording answers, or as the sheet says.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import structs

from gateway.session.session import Session
from tests.gateway.stage import Peer, settle
from tests.players.captures import Message, messages
from tests.players.clients import Client, PodClient, Said, flat, pod_said
from tests.players.readings import READINGS, Turn
from tests.players.stage import PlayStage

__all__ = ["BACKENDS", "PlayedBackend"]

Frame = dict[str, Any]
Hook = Callable[[int], Awaitable[None]]


class PlayedBackend:
    """One recording, played by a backend of its dialect. `steps` are its messages that are played."""

    dialect: str

    def __init__(self, number: str) -> None:
        self.steps = self._chosen(messages(self.dialect, number))
        self.stage: PlayStage
        self.driver: Client
        self._heard: dict[int, int] = {}  # connection -> how many frames of it were looked at

    @classmethod
    def plays(cls, number: str) -> bool:
        """Return True if anything in this recording can be played to anybody."""
        return True

    def _chosen(self, recorded: tuple[Message, ...]) -> list[Message]:
        return [message for message in recorded if message.conn == "a" and message.value is not None]

    # -- what was recorded -----------------------------------------------------------------------------

    def turns(self) -> list[Turn]:
        """Return the turns that the recording shows."""
        return READINGS[self.dialect]((message.way, message.value) for message in self.steps)

    def upto(self, step: int) -> list[Turn]:
        """Return the turns that had begun before this step."""
        return READINGS[self.dialect]((message.way, message.value) for message in self.steps[:step])

    def history(self) -> list[Said]:
        """Return who said what by the end of the recording."""
        raise NotImplementedError

    def kept(self) -> list[Said] | None:
        """Return what a pod client that connects at the end is told, where that is not the whole history."""
        return None

    def middle(self) -> int:
        """Return the step behind the second piece of text of the longest answer."""
        pieces = [at for at, message in enumerate(self.steps) if message.way == "got" and self.is_text(message.value)]
        assert pieces, "a recording without a text has no middle of a turn"
        runs: list[list[int]] = [[]]
        for at in pieces:
            if runs[-1] and at - runs[-1][-1] > 3:
                runs.append([])
            runs[-1].append(at)
        return max(runs, key=len)[1] + 1

    @staticmethod
    def is_text(frame: Frame) -> bool:
        """Return True if this is a piece of an answer."""
        raise NotImplementedError

    # -- playing ---------------------------------------------------------------------------------------

    async def play(self, before: Hook) -> None:
        """Play all steps; `before` hears the number of each step."""
        for at, message in enumerate(self.steps):
            await before(at)
            if message.way == "got":
                self.say(message)
            else:
                self.bring_about(message)
                await self.rest()
            await settle(3)
        await before(len(self.steps))
        await self.rest()

    async def rest(self) -> None:
        """Let everything run until the gateway asks no more."""
        while True:
            await settle()
            news = self._news()
            if not news:
                return
            for peer, frame in news:
                self.asked(peer, frame)

    def _news(self) -> list[tuple[Peer, Frame]]:
        news: list[tuple[Peer, Frame]] = []
        for number, peer in enumerate(self.stage.pods):
            frames = peer.frames()
            news += [(peer, frame) for frame in frames[self._heard.get(number, 0) :]]
            self._heard[number] = len(frames)
        return news

    async def opened(self) -> Session:
        """The driver opens its conversation; return it."""
        await self.driver.open()
        await self.rest()
        assert self.driver.session is not None
        return self.driver.session

    def say(self, message: Message) -> None:
        """Say what the backend said."""
        raise NotImplementedError

    def bring_about(self, message: Message) -> None:
        """Make the driver do what the recorded client did, where it can."""
        raise NotImplementedError

    def asked(self, peer: Peer, frame: Frame) -> None:
        """The gateway said this."""
        raise NotImplementedError


class PlayedPod(PlayedBackend):
    """A recorded pod, whose client did everything over one connection."""

    dialect = "pod"

    def __init__(self, number: str) -> None:
        super().__init__(number)
        self._segments: list[Frame] = []  # of the input that was really asked for
        self._running = False

    def history(self) -> list[Said]:
        return self._history(compacted=False)

    def kept(self) -> list[Said] | None:
        return self._history(compacted=True)

    def _history(self, *, compacted: bool) -> list[Said]:
        """Walk the log and the runs (pod sheet, sections 7 to 9): a rotation after a compaction seeds the log anew."""
        said: list[Said] = []
        start, turns, turn = 0, iter(self.turns()), Turn()
        for message in self.steps:
            data = message.value.get("data") or {}
            match message.value.get("event"):
                case "snapshot":
                    said = [words for entry in data["entries"] for words in pod_said(entry)]
                case "segment_rotated" if compacted and data["entry"].get("compacted_from"):
                    said = pod_said(data["entry"])
                    turn = structs.replace(turn, text=turn.text.removeprefix(self._text_before(message)))
                case "user_message":
                    start = len(said)
                    said.append(("user", flat(data["segments"])))
                case "status" if data["status"] == "running":
                    turn = next(turns)
                case "status":
                    said.append(("assistant", turn.text))
                case "run_end" if data["result"] == "rolled_back":
                    del said[start:]
                    turn = Turn()
                case _:
                    pass
        return said

    def _text_before(self, message: Message) -> str:
        """Return what the open run had said before this message."""
        at = next(number for number, step in enumerate(self.steps) if step is message)
        turns = self.upto(at)
        return turns[-1].text if turns and not turns[-1].end else ""

    @staticmethod
    def is_text(frame: Frame) -> bool:
        return bool(frame["event"] == "text_delta")

    async def opened(self) -> Session:
        await self.driver.open()
        for at, message in enumerate(self.steps):  # it is greeted first
            self.say(message)
            if message.value["event"] == "snapshot":
                del self.steps[: at + 1]
                break
        await self.rest()
        assert self.driver.session is not None
        return self.driver.session

    def say(self, message: Message) -> None:
        frame = message.value
        data = frame.get("data") or {}
        if frame["event"] == "status":
            self._running = data["status"] == "running"
        if frame["event"] == "user_message" and self._segments:
            echo = {"event": "user_message", "data": {"segments": self._segments}}
            self._segments = []
            self.stage.pod.says(echo)
        else:
            self.stage.pod.says(message.text.encode())

    def bring_about(self, message: Message) -> None:
        method, params = message.value["method"], message.value.get("params") or {}
        if method == "run" and isinstance(self.driver, PodClient):
            self.driver.run(params["input"])
        elif method == "run":
            self.driver.say(flat(params["input"]))
        elif method == "cancel" and self._running:
            self.driver.cancel()
        elif isinstance(self.driver, PodClient):
            self.driver.peer.says(message.text.encode())

    def asked(self, peer: Peer, frame: Frame) -> None:
        if frame["method"] == "run":
            self._segments = frame["params"]["input"]


BACKENDS: dict[str, type[PlayedBackend]] = {"pod": PlayedPod}
