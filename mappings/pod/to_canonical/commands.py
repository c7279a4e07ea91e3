"""Rules from pod methods to canonical commands, in the order of docs/dialects/pod.md, section 5.

Pods have no request ids: the server translator adds them.
"""

from __future__ import annotations

from dragoman.mappings.canonical import Command, Commands, commands
from dragoman.mappings.pod.entries import opaque
from dragoman.mappings.pod.vocabulary import METHODS_WITHOUT_CONTENT, keep, to_segments
from dragoman.mappings.pod.wire import methods as wire
from dragoman.mappings.pod.wire.values import ChildReport, Errored, ShutDown, TurnEnded
from dragoman.mappings.rules import Rules

TO_COMMAND = Rules[[], Command]("pod -> canonical commands")


@TO_COMMAND.rule(wire.Run, produces=(commands.SubmitInput,))
def run(message: wire.Run) -> Commands:
    return (commands.SubmitInput(segments=to_segments(message.params.input)),)


@TO_COMMAND.rule(wire.Notify, produces=(commands.InjectNote,))
def notify(message: wire.Notify) -> Commands:
    return (commands.InjectNote(text=message.params.message),)


@TO_COMMAND.rule(wire.PodEvent, produces=(commands.InjectNote,))
def pod_event(message: wire.PodEvent) -> Commands:
    report = message.params
    return (commands.InjectNote(text=_report_text(report), ext=keep(pod_event=opaque(report))),)


def _report_text(report: ChildReport) -> str:
    """Return a child's report as text, for backends without such reports."""
    if isinstance(report, TurnEnded):
        return f"Pod {report.pod_name} finished its run."
    if isinstance(report, Errored):
        return f"Pod {report.pod_name} failed: {report.message}"
    if isinstance(report, ShutDown):
        return f"Pod {report.pod_name} has shut down."
    return f"Pod {report.parent_pod} gave a part of its scope to its new pod {report.sub_pod}."


for method, command in METHODS_WITHOUT_CONTENT:
    TO_COMMAND.becomes(type(method), command)


@TO_COMMAND.rule(wire.ListCompletions, produces=(commands.ListCompletions,))
def list_completions(message: wire.ListCompletions) -> Commands:
    return (commands.ListCompletions(kind=message.params.kind, prefix=message.params.prefix),)


TO_COMMAND.becomes(wire.ListVisiblePods, commands.ListSessions())


@TO_COMMAND.rule(wire.InspectPod, produces=(commands.GetSession,))
def inspect_pod(message: wire.InspectPod) -> Commands:
    return (commands.GetSession(session=message.params.name),)


@TO_COMMAND.rule(wire.AttachOrRestorePod, produces=(commands.ResumeSession,))
def attach_or_restore_pod(message: wire.AttachOrRestorePod) -> Commands:
    return (commands.ResumeSession(session=message.params.name),)
