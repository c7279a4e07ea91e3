"""Segments of a user's input, in both directions (docs/translation.md, rule 3.10)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dragoman.mappings.canonical import values
from dragoman.mappings.pod.wire import values as wire

TO: dict[type, Callable[[Any], values.Segment]] = {
    wire.Text: lambda s: values.Text(text=s.content),
    wire.Paste: lambda s: values.Paste(text=s.content, id=s.id, chars=s.chars, lines=s.lines),
    wire.FileRef: lambda s: values.FileRef(path=s.path),
    wire.KnowledgeRef: lambda s: values.KnowledgeRef(slug=s.slug),
    wire.WorkflowInvoke: lambda s: values.WorkflowInvoke(slug=s.slug),
    wire.Unknown: lambda _: values.UnknownSegment(),
}

FROM: dict[type, Callable[[Any], wire.Segment]] = {
    values.Text: lambda s: wire.Text(content=s.text),
    values.Paste: lambda s: wire.Paste(content=s.text, id=s.id, chars=s.chars, lines=s.lines),
    values.FileRef: lambda s: wire.FileRef(path=s.path),
    values.KnowledgeRef: lambda s: wire.KnowledgeRef(slug=s.slug),
    values.WorkflowInvoke: lambda s: wire.WorkflowInvoke(slug=s.slug),
    values.UnknownSegment: lambda _: wire.Unknown(),
}


def to_segments(segments: Iterable[wire.Segment]) -> tuple[values.Segment, ...]:
    """Return wire segments as canonical segments."""
    return tuple([TO[type(segment)](segment) for segment in segments])


def from_segments(segments: Iterable[values.Segment]) -> list[wire.Segment]:
    """Return canonical segments as pod segments, without `attachments`, for which a pod has no form."""
    return [FROM[type(segment)](segment) for segment in segments if type(segment) in FROM]


def attachments(segments: Iterable[values.Segment]) -> list[values.Segment]:
    """Return the segments without a form in pod: images and files by URL."""
    return [segment for segment in segments if type(segment) not in FROM]
