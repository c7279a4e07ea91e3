"""The unions Event and Command: every kind of canonical event, and every kind of command. Unmapped is in both.

A new class of events.py or commands.py is added here. The fidelity matrix has the order of the unions.
"""

from __future__ import annotations

from dragoman.mappings.canonical import commands, events
from dragoman.mappings.canonical.facts import Facts


class Unmapped(Facts, frozen=True, kw_only=True, gc=False, tag_field="type", tag="unmapped"):
    """A whole message with an unknown name.

    It is logged, recorded and counted. It is sent only to peers of its own dialect, and only if clients of that dialect
    survive it. `raw` is the frame as text. An event with the `request` of a command goes to the client that sent it.
    """

    visibility = "internal"
    answers = "by_request"

    dialect: str
    tag: str
    raw: str
    request: str = ""
    session: str = ""


Event = (
    events.SessionOpened
    | events.SessionUpdated
    | events.SessionActivated
    | events.SessionClosed
    | events.SessionsListed
    | events.HistorySnapshot
    | events.MessageAppended
    | events.TurnAccepted
    | events.RunStarted
    | events.ModelTurnStarted
    | events.ModelTurnEnded
    | events.ModelCallStarted
    | events.ModelCallEnded
    | events.TextDelta
    | events.TextDone
    | events.ReasoningStarted
    | events.ReasoningDelta
    | events.ReasoningDone
    | events.Preamble
    | events.ToolCallStarted
    | events.ToolCallArguments
    | events.ToolOutputDelta
    | events.ToolCallFinished
    | events.StateSnapshot
    | events.ApprovalRequested
    | events.ApprovalResolved
    | events.OtpRequired
    | events.OtpSent
    | events.OtpVerified
    | events.OtpInvalid
    | events.InteractionRequired
    | events.InteractionInvalid
    | events.InteractionResolved
    | events.QuestionAsked
    | events.QuestionAnswered
    | events.UsageReported
    | events.ModelRetry
    | events.ModelContinuation
    | events.TurnResult
    | events.TurnEnded
    | events.StatusChanged
    | events.Alert
    | events.ErrorReported
    | events.CompactionStarted
    | events.CompactionDone
    | events.CompactionFailed
    | events.MemoryWork
    | events.McpStartup
    | events.GoalUpdated
    | events.GoalCleared
    | events.CompletionsListed
    | events.PodInspected
    | events.PodAttached
    | events.LifecycleReport
    | events.StoreChanged
    | events.Heartbeat
    | events.Pong
    | events.BackendShutdown
    | events.Reply
    | events.Gap
    | Unmapped
)
Events = tuple[Event, ...]  # the events that one message becomes

Command = (
    commands.OpenSession
    | commands.ResumeSession
    | commands.ListSessions
    | commands.GetSession
    | commands.GetHistory
    | commands.SubmitInput
    | commands.PromptOnce
    | commands.InjectNote
    | commands.CancelTurn
    | commands.PauseTurn
    | commands.ResumeTurn
    | commands.Compact
    | commands.AnswerApproval
    | commands.AnswerOtp
    | commands.AnswerInteraction
    | commands.ListCompletions
    | commands.ForkSession
    | commands.RenameSession
    | commands.ArchiveSession
    | commands.UnarchiveSession
    | commands.DeleteSession
    | commands.SetGoal
    | commands.GetGoal
    | commands.ClearGoal
    | commands.GetConfig
    | commands.SetConfig
    | commands.UnsetConfig
    | commands.ListConfig
    | commands.ReloadConfig
    | commands.ListModels
    | commands.GetCapabilities
    | commands.Ping
    | commands.ShutdownBackend
    | commands.StoreWrite
    | Unmapped
)
Commands = tuple[Command, ...]  # the commands that one message becomes
