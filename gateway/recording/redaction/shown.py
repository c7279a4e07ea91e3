"""Texts that people are shown elsewhere than in a recording: in logs, samples and explanations."""

from __future__ import annotations

from secrets import token_bytes

from dragoman.gateway.recording.redaction.blocks import HIDDEN
from dragoman.gateway.recording.redaction.finder import finder
from dragoman.gateway.recording.redaction.placeholders import Placeholders
from dragoman.gateway.recording.redaction.shapes import BUILT_IN
from dragoman.gateway.recording.redaction.spans import merged, replaced

__all__ = ["shown"]

_FINDER = finder(BUILT_IN)
_MARK = Placeholders(token_bytes(16)).mark


def shown(text: str, *, cut: bool = False) -> str:
    """The text without what has a built-in shape of secrets; if it is `cut` off, also without what may be part of one.

    Equal secrets have equal placeholders, in this process and nowhere else.
    """
    spans = _FINDER.find(text)
    unfinished = _FINDER.open(text) if cut else None
    if unfinished is not None and unfinished.end - unfinished.start >= HIDDEN:
        spans = merged([*spans, unfinished])
    return replaced(text, spans, _MARK) if spans else text
