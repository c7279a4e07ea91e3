"""The commands that pod methods become."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.mappings.canonical import Command, commands
from dragoman.mappings.canonical.values import FileRef, Text
from dragoman.mappings.dialect import Step
from dragoman.mappings.pod import DIALECT


def meant(frame: bytes) -> Command:
    step: Step[Any] = Step()
    DIALECT.commands.receive([frame], step)
    assert step.faults == []
    ((command,),) = [burst.items for burst in step.bursts]
    return command  # type: ignore[no-any-return]  # a burst's items are commands or events


@pytest.mark.parametrize(
    ("frame", "command"),
    [
        (
            b'{"method":"run","params":{"input":[{"kind":"text","content":"see "},{"kind":"file_ref","path":"a"}]}}',
            commands.SubmitInput(segments=(Text(text="see "), FileRef(path="a"))),
        ),
        (b'{"method":"notify","params":{"message":"n"}}', commands.InjectNote(text="n")),
        (b'{"method":"resume"}', commands.ResumeTurn()),
        (b'{"method":"cancel","params":null}', commands.CancelTurn()),
        (b'{"method":"pause"}', commands.PauseTurn()),
        (b'{"method":"compact"}', commands.Compact()),
        (b'{"method":"shutdown"}', commands.ShutdownBackend()),
        (
            b'{"method":"list_completions","params":{"kind":"workflow","prefix":"r"}}',
            commands.ListCompletions(kind="workflow", prefix="r"),
        ),
        (b'{"method":"list_visible_pods"}', commands.ListSessions()),
        (b'{"method":"inspect_pod","params":{"name":"k"}}', commands.GetSession(session="k")),
        (b'{"method":"attach_or_restore_pod","params":{"name":"k"}}', commands.ResumeSession(session="k")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_method_is_its_command_without_a_request(frame: bytes, command: Command) -> None:
    assert meant(frame) == command


@pytest.mark.parametrize(
    ("report", "told"),
    [
        (b'"turn_ended","pod_name":"k"', "Pod k finished its run."),
        (b'"errored","pod_name":"k","message":"m"', "Pod k failed: m"),
        (b'"shut_down","pod_name":"k"', "Pod k has shut down."),
        (
            b'"scope_sub_delegated","parent_pod":"p","sub_pod":"s","sub_socket":"/s","scope":[]',
            "Pod p gave a part of its scope to its new pod s.",
        ),
    ],
)
def test_a_childs_report_is_a_note_with_the_report_in_ext(report: bytes, told: str) -> None:
    command = meant(b'{"method":"pod_event","params":{"kind":' + report + b"}}")
    assert isinstance(command, commands.InjectNote)
    assert command.text == told
    assert set(command.ext or {}) == {"pod.pod_event"}
