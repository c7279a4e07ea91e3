"""Recorded clients that repeat their frames exactly, in front of backends of any dialect with the recorded answers."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tests.dialects import parts
from tests.oracle.history import Said
from tests.players.capture_readers import Turn, turns_of
from tests.players.captured.codewhale import usual
from tests.players.captured.pando import SESSION
from tests.players.captures import Message, messages
from tests.players.clients import InMemoryClient, InMemoryPandoClient, InMemoryPodClient, flat
from tests.players.in_memory import any_backend_gateway
from tests.players.recorded_turns_backend import RecordedTurnsBackend, script

PARTING = {"shutdown"}


class RepeatedConversation(Struct):
    """The turns and history shown to a recorded client, its requests without an answer, and faults in their order."""

    due: list[Turn]
    said: list[Said]
    turns: list[Turn]
    history: list[Said]
    open: list[str]
    illegal: str = ""


def steps(dialect: str, number: str) -> list[Message]:
    """Return the conversation of a recorded client's first connection; of a codewhale the turns of its first thread."""
    kept: list[Message] = []
    thread = ""
    for message in messages(dialect, number):
        if not message.text:
            break
        if message.conn != "a" or not isinstance(message.value, dict):
            continue
        if message.way == "said" and dialect == "codewhale":
            frame = usual(message.value)
            if frame["method"] in PARTING:
                break
            if frame["method"] == "thread/message":
                thread = thread or frame["params"]["thread_id"]
                if frame["params"]["thread_id"] != thread:
                    continue
        kept.append(message)
    return kept


def _ours(dialect: str, number: str) -> list[Turn]:
    return [turn for turn in parts(dialect).captured_backend(number).turns() if turn.ours]


def _is_input(frame: dict[str, Any]) -> bool:
    frame = usual(frame)
    return (frame.get("method") or frame.get("action")) in ("run", "message.send", "thread/message", "send_message")


class _RepeatedClient:
    """A recorded client in front of a played backend."""

    def __init__(self, client: InMemoryClient, backend: RecordedTurnsBackend, recorded: list[Message]) -> None:
        self._client = client
        self._backend = backend
        self._recorded = recorded
        self.names: dict[str, str] = {}  # ids that were recorded -> ids that were given

    async def run(self) -> None:
        """Send all recorded messages, in the middle of a turn if they were recorded there."""
        client = self._client
        for at, message in enumerate(self._recorded):
            if message.way != "said":
                continue
            if not self._in_turn(at):
                self._backend.release()
                await self._backend.rest()
            text = message.text
            for recorded, given in self.names.items():
                text = text.replace(recorded, given)
            if isinstance(client, InMemoryPandoClient):
                client.peer.calls(text.encode())
            else:
                client.peer.sends(text.encode())
            await self._backend.rest()
            self._learn(message.value)

    def _in_turn(self, at: int) -> bool:
        turns = turns_of(self._client.dialect, ((message.way, message.value) for message in self._recorded[:at]))
        return bool(turns) and not turns[-1].end

    def _learn(self, asked: dict[str, Any]) -> None:
        """Learn the ids in the answer to a request that replace recorded ones."""
        key = "requestId" if self._client.dialect == "smooth" else "id"
        if key not in asked:
            return
        answers = [m.value for m in self._recorded if m.way == "got" and m.value.get(key) == asked[key]]
        given = [frame for frame in self._client.peer.frames() if frame.get(key) == asked[key]]
        for recorded, now in zip(_ids(answers[-1:]), _ids(given[-1:]), strict=False):
            if recorded and now:
                self.names.setdefault(recorded, now)


def _ids(answers: list[dict[str, Any]]) -> list[str]:
    """Return the ids that name a conversation in an answer."""
    if not answers:
        return []
    data = answers[0].get("data") or answers[0].get("result")
    known = data if isinstance(data, dict) else {}
    return [str(known.get(name) or "") for name in ("sessionId", "conversationId", "thread_id")]


async def repeated(dialect: str, number: str, backend: str) -> RepeatedConversation:
    """Let a recorded client send everything again, to a backend of this dialect."""
    recorded = steps(dialect, number)
    turns = _ours(dialect, number) if parts(dialect).captured_backend.plays(number) else []
    acts = _acts(dialect, recorded, len(turns))
    lines = [script(turn, acts=act or turn.end in ("", "cancelled")) for turn, act in zip(turns, acts, strict=True)]
    async with any_backend_gateway(backend) as stage:
        acted = RecordedTurnsBackend(stage, lines or [script(Turn(end="completed"), acts=False)])
        try:
            return await _repeat(parts(dialect).in_memory_client(stage, "recorded"), acted, recorded, turns)
        finally:
            await acted.end()


async def _repeat(
    client: InMemoryClient, acted: RecordedTurnsBackend, recorded: list[Message], turns: list[Turn]
) -> RepeatedConversation:
    stage = client.stage
    stage.rest = acted.rest
    if isinstance(client, InMemoryPodClient | InMemoryPandoClient):  # else it opens its conversation itself
        await client.open()
    repetition = _RepeatedClient(client, acted, recorded)
    if isinstance(client, InMemoryPandoClient):
        repetition.names[SESSION] = client.public()
    await repetition.run()
    if not turns or turns[-1].end:
        acted.release()
    await acted.rest()
    due = list(turns)
    if stage.backend == "pando":  # its `llm.end` does not say whether the turn was cancelled
        acts = _acts(client.dialect, recorded, len(turns))
        due = [_as_completed(turn) if not act else turn for turn, act in zip(turns, acts, strict=True)]
    done = RepeatedConversation(due, _said(recorded, turns, rolls_back=stage.backend == "pod"), [], [], [])
    if client.session is None and stage.router.sessions:
        client.session = stage.router.sessions[0]
    if client.session is not None:
        done.turns = client.turns()
        done.history = await client.history()
    done.open, done.illegal = client.unanswered()
    return done


def _acts(dialect: str, recorded: list[Message], turns: int) -> list[bool]:
    """Return for each turn whether the recorded client did anything in its middle."""
    acts: list[bool] = []
    wire: list[tuple[str, Any]] = []
    for message in recorded:
        if message.way == "said" and _is_input(message.value):
            acts.append(False)
        elif message.way == "said" and acts:
            shown = turns_of(dialect, wire)
            acts[-1] = acts[-1] or (bool(shown) and not shown[-1].end)
        wire.append((message.way, message.value))
    return [*acts, *[False] * turns][:turns]


def _as_completed(turn: Turn) -> Turn:
    return replace(turn, end="completed") if turn.end == "cancelled" else turn


def _said(recorded: list[Message], turns: list[Turn], *, rolls_back: bool) -> list[Said]:
    """Return the messages with their speakers; a pod takes back an input that was stopped before any output."""
    inputs = [_text(usual(m.value)) for m in recorded if m.way == "said" and _is_input(m.value)]
    said: list[Said] = []
    for text, turn in zip(inputs, turns, strict=False):
        if rolls_back and turn.empty and turn.end == "cancelled":
            continue
        said += [("user", text), ("assistant", turn.text)]
    return said


def _text(frame: dict[str, Any]) -> str:
    params = frame.get("params") or frame
    value = params.get("input") or params.get("content") or params.get("message")
    return flat(value) if isinstance(value, list) else str(value)
