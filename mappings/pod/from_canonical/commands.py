"""Rules from canonical commands to pod methods, in the order of to_canonical/commands.py.

The commands without a form in pod come last. The context of a rule only counts losses.
"""

from __future__ import annotations

from typing import Any

from dragoman.mappings.canonical import commands
from dragoman.mappings.canonical.unions import Unmapped
from dragoman.mappings.canonical.values import attachments
from dragoman.mappings.losses import CLIENT_DETAILS, Losses
from dragoman.mappings.pod.vocabulary import (
    COMPLETION_KINDS,
    METHODS_WITHOUT_CONTENT,
    from_segments,
    given,
)
from dragoman.mappings.pod.wire import methods as wire
from dragoman.mappings.pod.wire.values import ChildReport
from dragoman.mappings.rules import Emulated, Lossy, Rules

FROM_COMMAND = Rules[[Losses], wire.MethodBase]("canonical commands -> pod")

Messages = tuple[wire.MethodBase, ...]

REPORT: Any = ChildReport


@FROM_COMMAND.rule(
    commands.SubmitInput,
    produces=(wire.Run,),
    # a live pod is sent no attachments: their input is refused
    fidelity=Lossy(("model", "segments.image", "segments.file"), lost_by=lambda _command: ("model",)),
)
def submit_input(command: commands.SubmitInput, context: Losses) -> Messages:
    for _ in attachments(command.segments):
        context.lose(command, "segments", "a pod takes no images or files by URL")
    return (wire.Run(params=wire.Run.Params(input=from_segments(command.segments))),)


@FROM_COMMAND.rule(commands.InjectNote, produces=(wire.Notify, wire.PodEvent))
def inject_note(command: commands.InjectNote, _context: Losses) -> Messages:
    report = given(command.ext, "pod_event", REPORT, None)
    return (
        wire.Notify(params=wire.Notify.Params(message=command.text))
        if report is None
        else wire.PodEvent(params=report),
    )


for method, command in METHODS_WITHOUT_CONTENT:
    FROM_COMMAND.becomes(type(command), method)


@FROM_COMMAND.rule(commands.ListCompletions, produces=(wire.ListCompletions,))
def list_completions(command: commands.ListCompletions, context: Losses) -> Messages:
    kind = COMPLETION_KINDS.get(command.kind)
    if kind is None:
        context.lose(command, "kind", "pods complete files, knowledge and workflows only")
        return ()
    return (wire.ListCompletions(params=wire.ListCompletions.Params(kind=kind, prefix=command.prefix)),)


FROM_COMMAND.becomes(
    commands.ListSessions, wire.ListVisiblePods(), fidelity=Lossy(("limit", "cursor", "query", "archived"))
)


@FROM_COMMAND.rule(commands.GetSession, produces=(wire.InspectPod,))
def get_session(command: commands.GetSession, _context: Losses) -> Messages:
    return (wire.InspectPod(params=wire.Name(name=command.session)),)


@FROM_COMMAND.rule(commands.ResumeSession, produces=(wire.AttachOrRestorePod,), fidelity=Lossy(CLIENT_DETAILS))
def resume_session(command: commands.ResumeSession, _context: Losses) -> Messages:
    return (wire.AttachOrRestorePod(params=wire.Name(name=command.session)),)


# -- commands without a form in pod ------------------------------------------------------------------


@FROM_COMMAND.rule(
    commands.OpenSession,
    fidelity=Emulated("connecting to the pod", fields=(*CLIENT_DETAILS[1:], "title", "model", "cwd")),
)
def open_session(_command: commands.OpenSession, _context: Losses) -> Messages:
    return ()  # no message is sent: the ledger counts the fields when the session is opened


FROM_COMMAND.none("a pod sends its history once, when a client connects", commands.GetHistory)
FROM_COMMAND.none("pods run no prompt outside of their conversation", commands.PromptOnce)
FROM_COMMAND.none("pods ask no questions", commands.AnswerApproval, commands.AnswerOtp, commands.AnswerInteraction)
FROM_COMMAND.none(
    "a pod is one session that its clients cannot rename, archive, fork or delete",
    commands.ForkSession,
    commands.RenameSession,
    commands.ArchiveSession,
    commands.UnarchiveSession,
    commands.DeleteSession,
)
FROM_COMMAND.none("pods have no goals", commands.SetGoal, commands.GetGoal, commands.ClearGoal)
FROM_COMMAND.none("pods are configured by files, not by their clients", *commands.CONFIGURATION)
FROM_COMMAND.none("pods have no ping", commands.Ping)
FROM_COMMAND.none("clients cannot write to a pod's store", commands.StoreWrite)
FROM_COMMAND.none("a pod refuses methods of unknown names", Unmapped)
