"""The base of the oracles: the messages of a connection in order, and the failure that shows the last ones.

An oracle is told everything that passed on one connection, as the client saw it: `said` is what the client sent, `got`
what it received. It knows the dialect from docs/dialects alone and none of our code. It fails where an order is
illegal.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any, Protocol

from tests.data_files import value_of

SHOWN = 12  # messages that a failure shows
WIDTH = 300  # characters of each


class Oracle(Protocol):
    """The observer of one connection of a client."""

    @property
    def open(self) -> list[str]:
        """The requests and turns without an end."""

    def said(self, message: dict[str, Any]) -> None:
        """Take a message that the client sent."""

    def got(self, frame: dict[str, Any]) -> None:
        """Take a message that the client received."""


class Record:
    """The last messages of a connection."""

    def __init__(self) -> None:
        self._last: deque[str] = deque(maxlen=SHOWN)

    def add(self, arrow: str, message: dict[str, Any]) -> None:
        """Take a further frame; `arrow` shows its direction."""
        self._last.append(f"{arrow} {json.dumps(message, ensure_ascii=False)[:WIDTH]}")

    def hold(self, legal: bool, rule: str) -> None:
        """Assert that the last message was legal; a failure shows the broken rule and the messages before it."""
        assert legal, "\n    ".join([rule, *self._last])


def heard(oracle: Oracle, frame: bytes | str) -> None:
    """Take a frame that a client sent. A frame that is no JSON object is ignored, because its answer has no id
    either.
    """
    message = value_of(frame)
    if isinstance(message, dict):
        oracle.said(message)


Said = tuple[str, str]
"""A message of a history: its role (user or assistant) and its text (docs/translation.md, rule 4.7)."""


def joined(history: list[Said]) -> list[Said]:
    """Join consecutive messages of the assistant, because a pod's blocks are one message elsewhere. Inputs
    stay apart.
    """
    known: list[Said] = []
    for who, text in history:
        if known and known[-1][0] == who == "assistant":
            known[-1] = who, known[-1][1] + text
        elif text:
            known.append((who, text))
    return known


def told_as_said(told: list[Said], said: list[Said]) -> bool:
    """Return True if a history has the same texts of user and assistant, in the same alternation."""
    return joined(told) == joined(said)
