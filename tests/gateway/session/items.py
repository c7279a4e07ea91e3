"""Items of a history, and what a test compares of them."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.mappings.canonical.values import Item, Message, Role


def user(text: str, id: str = "", turn: str = "") -> Message:
    return Message(role="user", text=text, id=id, turn=turn)


def assistant(text: str) -> Message:
    return Message(role="assistant", text=text)


def said(role: Role, text: str, id: str = "", turn: str = "") -> Message:
    return Message(role=role, text=text, id=id, turn=turn)


def asks(text: str) -> Message:
    return Message(role="user", text=text, id=f"u {text}", turn=text)


def answer(text: str, turn: str = "") -> Message:
    return Message(role="assistant", text=text, id=f"a {text}", turn=turn)


def conversation(runs: str) -> list[Item]:
    """Return the messages of runs, written as the input, a colon and the answer, which may be missing."""
    pairs = [run.split(":") for run in runs.split(" ")]
    return [item for text, reply in pairs for item in (said("user", text), *([answer(reply)] if reply else []))]


def ids(items: Sequence[Item]) -> list[str]:
    return [item.id for item in items if isinstance(item, Message)]


def texts_of(items: Sequence[Item]) -> list[str]:
    return [item.text if isinstance(item, Message) else type(item).__name__ for item in items]
