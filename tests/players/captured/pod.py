"""A pod that plays a recorded conversation, with its races between the log and the events."""

from __future__ import annotations

from msgspec import structs

from dragoman.gateway.session.session import Session
from tests.gateway.in_memory import InMemoryPeer
from tests.oracle.base import Said
from tests.players.capture_readers import Turn, turns_of
from tests.players.captured.backend import CapturedBackend, Frame
from tests.players.captures import Message
from tests.players.clients import InMemoryPodClient, flat, pod_said


class CapturedPod(CapturedBackend):
    """A recorded pod, whose client did everything over one connection."""

    dialect = "pod"

    def __init__(self, number: str, manner: str = "") -> None:
        super().__init__(number, manner)
        self._segments: list[Frame] = []  # the segments of the input that our client really sent
        self._running = False

    def history(self) -> list[Said]:
        return self._history(compacted=False)

    def kept(self) -> list[Said] | None:
        return self._history(compacted=True)

    def _history(self, *, compacted: bool) -> list[Said]:
        """Walk the log and the runs (docs/dialects/pod.md, sections 7 to 9): a rotation after a compaction seeds the
        log anew.
        """
        said: list[Said] = []
        start, turns, turn = 0, iter(self.turns()), Turn()
        for message in self.recorded:
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
        """Return the text of the open run before this message."""
        at = next(number for number, step in enumerate(self.recorded) if step is message)
        turns = turns_of("pod", ((step.way, step.value) for step in self.recorded[:at]))
        return turns[-1].text if turns and not turns[-1].end else ""

    @staticmethod
    def is_text(frame: Frame) -> bool:
        return bool(frame["event"] == "text_delta")

    @staticmethod
    def is_end(frame: Frame) -> bool:
        return bool(frame["event"] == "status" and frame["data"]["status"] != "running")

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
            self.stage.pod.sends(echo)
        else:
            self.stage.pod.sends(message.text.encode())

    def bring_about(self, message: Message) -> None:
        method, params = message.value["method"], message.value.get("params") or {}
        if method == "run" and isinstance(self.driver, InMemoryPodClient):
            self.driver.run(params["input"])
        elif method == "run":
            self.driver.say(flat(params["input"]))
        elif method == "cancel" and self._running:
            self.driver.cancel()
        elif isinstance(self.driver, InMemoryPodClient):
            self.driver.peer.sends(message.text.encode())

    def asked(self, peer: InMemoryPeer, frame: Frame) -> None:
        if frame["method"] == "run":
            self._segments = frame["params"]["input"]
