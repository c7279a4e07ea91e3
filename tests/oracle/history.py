"""The legal content of a history: the messages of each speaker, in order (docs/translation.md, rule 4.7)."""

from __future__ import annotations

Said = tuple[str, str]
"""A message of a history: its role (user or assistant) and its text."""


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
