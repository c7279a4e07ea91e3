"""Variants of captured conversations: the same messages in an extreme but legal form.

The variant with bursts sends all messages between two inputs in one piece; real pods write 256 events and more at once.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.players.captures import Message

Variant = Callable[[list[Message]], list[Message]]

BURST = "burst"
LOG_LANE = ("segment_rotated", "invoke_start", "system_item")
LATE = 4  # events of the other lane behind which one of the log lane comes


def _name(message: Message) -> str:
    frame = message.value
    return str(frame.get("event") or frame.get("topic") or frame.get("type") or "") if message.way == "got" else ""


def done_texts_alone(messages: list[Message]) -> list[Message]:
    """Let a pod send a text only in its `text_done`, if it has one."""
    kept: list[Message] = []
    block: list[Message] = []
    for message in messages:
        if _name(message) == "text_delta":
            block.append(message)
            continue
        kept += [] if _name(message) == "text_done" else block
        block = []
        kept.append(message)
    return kept + block


def log_lane_first(messages: list[Message]) -> list[Message]:
    """Let the log lane of a pod overtake the event lane, up to the input before it
    (docs/dialects/pod.md, section 3).
    """
    kept: list[Message] = []
    for message in messages:
        at = len(kept)
        if _name(message) in LOG_LANE:
            while at > 0 and kept[at - 1].way == "got" and _name(kept[at - 1]) not in (*LOG_LANE, "snapshot"):
                at -= 1
        kept.insert(at, message)
    return kept


def log_lane_last(messages: list[Message]) -> list[Message]:
    """Let the log lane of a pod lag behind the event lane by some events."""
    kept: list[Message] = []
    waiting: list[tuple[int, Message]] = []
    for message in messages:
        if message.way == "said":
            kept += [late for _, late in waiting]
            waiting = []
        if _name(message) in LOG_LANE:
            waiting.append((len(kept) + LATE, message))
            continue
        kept.append(message)
        while waiting and waiting[0][0] <= len(kept):
            kept.append(waiting.pop(0)[1])
    return kept + [late for _, late in waiting]


def terminal_alone(messages: list[Message]) -> list[Message]:
    """Let a smooth server send the text of a turn only in its `eventual_response`, if it has one."""
    whole = {m.value.get("requestId") for m in messages if _name(m) == "eventual_response"}
    return [m for m in messages if _name(m) != "stream_token" or m.value["requestId"] not in whole]


def last_tokens_lost(messages: list[Message]) -> list[Message]:
    """Let the bridge of a pando drop the last tokens of each run that is completed
    (docs/dialects/pando.md, section 4).
    """
    kept: list[Message] = []
    for message in messages:
        if _name(message) == "llm.end":
            while kept and _name(kept[-1]) == "llm.token" and _name(kept[-2]) == "llm.token":
                lost = kept.pop()
                if len(lost.value["payload"]["token"]) > 1:
                    break
        kept.append(message)
    return kept
