"""Methods that a client sends to a pod (docs/dialects/pod.md, section 5): `{"method": NAME, "params": CONTENT}`.

CONTENT is the class `Params` of the method. A method without content is written without `params`. When such a method is
read, `params` may be null, but not `{}`.
"""

from __future__ import annotations

from dragoman.mappings.canonical.values import snake_case
from dragoman.mappings.pod.wire.values import ChildReport, CompletionKind, Segment, Wire
from dragoman.mappings.reflection import union_of


class MethodBase(Wire, frozen=True, kw_only=True, tag_field="method", tag=snake_case):
    """Base class of the methods."""


class Run(MethodBase, frozen=True, kw_only=True):
    """Start a run."""

    class Params(Wire, frozen=True, kw_only=True):
        input: list[Segment]

    params: Params


class Notify(MethodBase, frozen=True, kw_only=True):
    """Queue a note for the model; it wakes an idle pod."""

    class Params(Wire, frozen=True, kw_only=True):
        message: str

    params: Params


class PodEvent(MethodBase, frozen=True, kw_only=True):
    """Pass on the report of a child pod."""

    params: ChildReport


class Resume(MethodBase, frozen=True, kw_only=True, omit_defaults=True):
    """Resume the paused run."""

    params: None = None


class Cancel(MethodBase, frozen=True, kw_only=True, omit_defaults=True):
    """Abort the run."""

    params: None = None


class Pause(MethodBase, frozen=True, kw_only=True, omit_defaults=True):
    """Abort the run so that it can be resumed."""

    params: None = None


class Compact(MethodBase, frozen=True, kw_only=True, omit_defaults=True):
    """Compact the history; only while idle."""

    params: None = None


class Shutdown(MethodBase, frozen=True, kw_only=True, omit_defaults=True):
    """Stop the pod."""

    params: None = None


class ListCompletions(MethodBase, frozen=True, kw_only=True):
    """Ask for completions."""

    class Params(Wire, frozen=True, kw_only=True):
        kind: CompletionKind
        prefix: str

    params: Params


class ListVisiblePods(MethodBase, frozen=True, kw_only=True, omit_defaults=True):
    """List the pods that this one sees."""

    params: None = None


class Name(Wire, frozen=True, kw_only=True):
    """Content of the methods that name a pod."""

    name: str


class InspectPod(MethodBase, frozen=True, kw_only=True):
    """Ask for one pod's description."""

    params: Name


class AttachOrRestorePod(MethodBase, frozen=True, kw_only=True):
    """Attach to a pod if it runs, else restore it."""

    params: Name


Method = union_of(MethodBase)
"""The union of all methods."""
