"""The turns of a conversation as a user sees them, read from the frames of a client of any dialect.

Adjacent text is joined, however it was split into blocks and deltas. Results are kept apart from their calls, because a
client that joins late gets a call together with its result. Turns without any visible content are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from tests.players.capture_readers import plain

Frame = dict[str, Any]

THOUGHT, TEXT, CALL = "thought", "text", "call"
FORGOTTEN = "[the backend has forgotten the conversation: it knows nothing of what was said before]\n\n"
"""The line which tells clients of smooth and pando that the context is lost (docs/translation.md, rule 4.11)."""


QUESTION = re.compile(r"(\n\n)?The agent asks for your approval of [^\n]*\nAnswer approve or deny\.")
"""A question in words, which is no part of the text of its turn (docs/translation.md, rule 3.3)."""

ASKED = "asked"
"""The end of a run that ends with a question in words: the next run may go on with its turn."""


class SeenTurn(Struct):
    """A turn: thoughts, texts and calls in order, results, and the end: completed, failed, cancelled, ASKED or ""."""

    parts: list[tuple[str, str]] = field(default_factory=list)
    results: list[tuple[str, str]] = field(default_factory=list)
    end: str = ""

    def add(self, kind: str, words: str) -> None:
        """Add more content of the turn."""
        words = QUESTION.sub("", words.removeprefix(FORGOTTEN))
        if not words:
            return
        if self.parts and self.parts[-1][0] == kind != CALL:
            words = self.parts.pop()[1] + words
        self.parts.append((kind, words))

    def add_result(self, name: str, words: str) -> None:
        """Add the result of a call."""
        self.results = sorted([*self.results, (name, words)])

    def regrouped(self) -> SeenTurn:
        """Return the turn as its text, then its thoughts, then its calls."""
        joined = {kind: "".join(words for of, words in self.parts if of == kind) for kind in (TEXT, THOUGHT)}
        calls = [part for part in self.parts if part[0] == CALL]
        return SeenTurn([*((kind, words) for kind, words in joined.items() if words), *calls], self.results, self.end)

    def published(self) -> SeenTurn:
        """Return what a pando publishes of the turn: neither thoughts nor how it ended."""
        whole = self.regrouped()
        return SeenTurn([part for part in whole.parts if part[0] != THOUGHT], whole.results)

    @property
    def empty(self) -> bool:
        """True if nothing was shown."""
        return not self.parts and not self.results


def joined(runs: Iterable[SeenTurn]) -> list[SeenTurn]:
    """Return the turns of these runs. A run goes on with the turn of one that ended with a question."""
    turns: list[SeenTurn] = []
    for run in runs:
        if turns and turns[-1].end == ASKED:
            turn = turns[-1]
            for kind, words in run.parts:
                turn.add(kind, words)
            turn.results, turn.end = sorted(turn.results + run.results), run.end
        else:
            turns.append(run)
    return [turn for turn in turns if not turn.empty]


def arguments(name: str, said: object) -> str:
    """Return a call as one text (docs/dialects/smooth.md, section 4)."""
    return f"{name} {plain(said)}"


# -- smooth -----------------------------------------------------------------------------------------


def of_smooth(frames: Iterable[Frame], sent: Iterable[Frame]) -> list[SeenTurn]:
    """Return turns by request id, in the order of their first frames; a refused send is none."""
    ours = {message.get("requestId") for message in sent}
    turns: dict[str, SeenTurn] = {}
    over: list[SeenTurn] = []
    for frame in frames:
        request = frame.get("requestId")
        kind = frame["type"]
        if request is None or (kind == "immediate_response" and frame.get("status") != 202):
            continue
        if kind == "error" and request in ours and request not in turns:
            continue
        if kind in ("pong", "keepalive", "stream_preamble"):
            continue
        turn = turns.get(request)
        if turn is None:
            turn = turns[request] = SeenTurn()
            over.append(turn)
        _smooth(turn, frame)
        if turn.end:
            del turns[request]
    return [turn for turn in over if not turn.empty]


def _smooth(turn: SeenTurn, frame: Frame) -> None:
    match frame["type"]:
        case "stream_token":
            turn.add(TEXT, frame["token"])
        case "stream_reasoning":
            turn.add(THOUGHT, frame["token"])
        case "stream_chunk":
            raw = frame["data"]["state"].get("rawResponse") or {}
            if "toolCall" in raw:
                turn.add(CALL, arguments(raw["toolCall"]["name"], raw["toolCall"]["arguments"]))
            elif "toolResult" in raw:
                turn.add_result(raw["toolResult"]["name"], raw["toolResult"]["result"])
        case "eventual_response":
            turn.end = "completed"
        case "error":
            turn.end = "failed"
        case "cancelled":
            turn.end = "cancelled"
        case _:
            pass


# -- pod --------------------------------------------------------------------------------------------


def of_pod(frames: Iterable[Frame], _sent: Iterable[Frame]) -> list[SeenTurn]:
    """Return runs, from each status to the next."""
    turns: list[SeenTurn] = []
    turn: SeenTurn | None = None
    names: dict[str, str] = {}
    ended, asked = "", False
    for frame in frames:
        data = frame.get("data") or {}
        state = data.get("status") if frame["event"] in ("snapshot", "status") else None
        if state == "running" and turn is None:
            turn, ended, asked = SeenTurn(), "", False
            turns.append(turn)
        elif state is not None and state != "running" and turn is not None:
            turn.end = ended
            turn = None
        elif state == "idle" and turns and turns[-1].end == ASKED:
            turns[-1].end = ended
        if frame["event"] == "snapshot":
            names |= _calls(data["entries"])
        elif frame["event"] == "segment_rotated":
            names |= _calls([data["entry"]])
        elif frame["event"] == "run_end" and data["result"] == "paused" and asked:
            ended, asked = ASKED, False
        elif frame["event"] == "run_end":
            ended = "completed" if data["result"] in ("finished", "limit_reached") else "cancelled"
        elif frame["event"] == "error":
            ended = "cancelled" if data["message"] == "Cancelled" else ended or "failed"
        elif turn is not None:
            asked = asked or (frame["event"] == "text_delta" and QUESTION.search(data["text"]) is not None)
            _pod(turn, frame["event"], data, names)
    return joined(turns)


def _pod(turn: SeenTurn, event: str, data: Frame, names: dict[str, str]) -> None:
    match event:
        case "text_delta":
            turn.add(TEXT, data["text"])
        case "thinking_delta":
            turn.add(THOUGHT, data["text"])
        case "tool_call_start":
            names[data["id"]] = data["name"]
        case "tool_call_done":
            turn.add(CALL, arguments(data["name"], data["arguments"]))
        case "tool_result":
            turn.add_result(names.get(data["id"], ""), data.get("output") or data["summary"])
        case _:
            pass


def _calls(entries: Iterable[Any]) -> dict[str, str]:
    items = [item for entry in entries for item in (entry.get("history") or [entry.get("item") or {}])]
    return {item["call_id"]: item["name"] for item in items if item.get("kind") == "tool_call"}


# -- codewhale --------------------------------------------------------------------------------------


def of_codewhale(frames: Iterable[Frame], sent: Iterable[Frame]) -> list[SeenTurn]:
    """Return the turns that the messages of this client began, which are answered in their order.

    Text is streamed; everything else stands in the result, so a failed turn has text alone (docs/translation.md, rule
    3.17).
    """
    turns = {message["id"]: SeenTurn() for message in sent if message["method"] == "thread/message"}
    waiting, asked = list(turns), False
    for frame in frames:
        if frame.get("type") == "response_delta":
            asked = QUESTION.search(frame["delta"]) is not None
            turns[waiting[0]].add(TEXT, frame["delta"])
        elif frame.get("id") in waiting:
            assert frame["id"] == waiting.pop(0), "answers come in the order of requests"
            _codewhale(turns[frame["id"]], frame)
            if asked and turns[frame["id"]].end == "completed":
                turns[frame["id"]].end = ASKED
            asked = False
    return [turn for turn in turns.values() if not turn.empty]


def _codewhale(turn: SeenTurn, answer: Frame) -> None:
    if "error" in answer:
        turn.end = "cancelled" if answer["error"]["message"] == "turn interrupted" else "failed"
        return
    turn.end = "completed"
    for event in answer["result"]["events"]:
        match event["event"]:
            case "response_delta":
                turn.add(THOUGHT, event["delta"])
            case "tool_call_start":
                turn.add(CALL, arguments(event["tool_name"], event["arguments"]["arguments"]))
            case "tool_call_result":
                turn.add_result(event["tool_name"], event["output"]["body"])
            case _:
                pass


# -- pando ------------------------------------------------------------------------------------------


def of_pando(frames: Iterable[Frame], _sent: Iterable[Frame]) -> list[SeenTurn]:
    """Return runs, from `llm.start` to `llm.end`: it tells neither thoughts nor how a run ended."""
    turns: list[SeenTurn] = []
    turn, asked = SeenTurn(), False
    for frame in frames:
        payload = frame["payload"]
        match frame["topic"]:
            case "llm.start":
                turns.append(turn := SeenTurn())
                asked = False
            case "llm.end":
                turn.end, turn = ASKED if asked else "completed", SeenTurn()
            case "llm.token":
                asked = QUESTION.search(payload["token"]) is not None
                turn.add(TEXT, payload["token"])
            case "tool.start" if payload["params"]:
                turn.add(CALL, arguments(payload["tool_name"], payload["params"]))
            case "tool.end":
                turn.add_result(payload["tool_name"], payload["result"])
            case _:
                pass
    return joined(turns)


READ = {"smooth": of_smooth, "pod": of_pod, "codewhale": of_codewhale, "pando": of_pando}
"""The reading of each dialect: frames got, messages sent -> turns."""
