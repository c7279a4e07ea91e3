"""Tables of pod: error codes to causes, run results to ends, segments (docs/translation.md, rules 3.6, 3.10, 3.11)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, get_args

from dragoman.mappings.canonical import Command, commands, values
from dragoman.mappings.canonical.values import Cause, End
from dragoman.mappings.extras import Extras
from dragoman.mappings.pod.wire import methods
from dragoman.mappings.pod.wire import values as wire
from dragoman.mappings.pod.wire.events import AlertSource, ErrorCode, InvokeKind, RunResult
from dragoman.mappings.pod.wire.values import CompletionKind

EXTRAS = Extras("pod")
keep, carried, given = EXTRAS.keep, EXTRAS.carried, EXTRAS.given

# `error{internal}` with this text is the end of a cancelled run (docs/dialects/pod.md, section 8)
CANCELLED = "Cancelled"

CAUSE_OF_CODE: dict[ErrorCode, Cause] = {
    "already_running": "busy",
    "not_running": "not_running",
    "not_paused": "not_running",
    "provider_error": "model_failed",
    "tool_error": "tool_failed",
    "invalid_request": "invalid",
    "internal": "internal",
}

CODE_OF_CAUSE: dict[Cause, ErrorCode] = {
    "invalid": "invalid_request",
    "unsupported": "invalid_request",
    "not_found": "invalid_request",
    "busy": "already_running",
    "not_running": "not_running",
    "denied": "invalid_request",
    "upstream_lost": "internal",
    "timeout": "internal",
    "too_large": "invalid_request",
    "internal": "internal",
    "rate_limited": "provider_error",
    "model_failed": "provider_error",
    "tool_failed": "tool_error",
}

CODE_OF_FAILURE: dict[Cause, ErrorCode] = {**CODE_OF_CAUSE, "busy": "internal", "not_running": "internal"}
"""The codes of a failed run. A client takes any code that refuses a method for the answer to another client."""

END_OF_RESULT: dict[RunResult, End] = {
    "finished": "completed",
    "paused": "paused",
    "limit_reached": "limit_reached",
    "rolled_back": "rolled_back",
}

RESULT_OF_END: dict[End, RunResult] = {end: result for result, end in END_OF_RESULT.items()}

# The values that pod clients know: any other value is replaced before it is written.
INVOKE_KINDS: dict[str, InvokeKind] = {kind: kind for kind in get_args(InvokeKind)}
ALERT_SOURCES: dict[str, AlertSource] = {source: source for source in get_args(AlertSource)}
ERROR_CODES: dict[str, ErrorCode] = {code: code for code in get_args(ErrorCode)}
COMPLETION_KINDS: dict[str, CompletionKind] = {kind: kind for kind in get_args(CompletionKind)}

BAD_METHOD = "invalid method: "
"""The beginning of a pod's error for a line that it cannot read (docs/dialects/pod.md, section 1.1)."""

METHODS_WITHOUT_CONTENT: tuple[tuple[methods.MethodBase, Command], ...] = (
    (methods.Resume(), commands.ResumeTurn()),
    (methods.Cancel(), commands.CancelTurn()),
    (methods.Pause(), commands.PauseTurn()),
    (methods.Compact(), commands.Compact()),
    (methods.Shutdown(), commands.ShutdownBackend()),
)
"""Methods without parameters, and the commands that they become."""


TO_SEGMENT: dict[type, Callable[[Any], values.Segment]] = {
    wire.Text: lambda s: values.Text(text=s.content),
    wire.Paste: lambda s: values.Paste(text=s.content, id=s.id, chars=s.chars, lines=s.lines),
    wire.FileRef: lambda s: values.FileRef(path=s.path),
    wire.KnowledgeRef: lambda s: values.KnowledgeRef(slug=s.slug),
    wire.WorkflowInvoke: lambda s: values.WorkflowInvoke(slug=s.slug),
    wire.Unknown: lambda _: values.UnknownSegment(),
}

FROM_SEGMENT: dict[type, Callable[[Any], wire.Segment]] = {
    values.Text: lambda s: wire.Text(content=s.text),
    values.Paste: lambda s: wire.Paste(content=s.text, id=s.id, chars=s.chars, lines=s.lines),
    values.FileRef: lambda s: wire.FileRef(path=s.path),
    values.KnowledgeRef: lambda s: wire.KnowledgeRef(slug=s.slug),
    values.WorkflowInvoke: lambda s: wire.WorkflowInvoke(slug=s.slug),
    values.UnknownSegment: lambda _: wire.Unknown(),
}


def to_segments(segments: Iterable[wire.Segment]) -> tuple[values.Segment, ...]:
    return tuple([TO_SEGMENT[type(segment)](segment) for segment in segments])


def from_segments(segments: Iterable[values.Segment]) -> list[wire.Segment]:
    """Return canonical segments as pod segments, without attachments, for which a pod has no form."""
    return [FROM_SEGMENT[type(segment)](segment) for segment in segments if type(segment) in FROM_SEGMENT]
