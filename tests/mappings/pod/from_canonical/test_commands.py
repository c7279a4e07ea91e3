"""The methods that canonical commands become."""

from __future__ import annotations

from typing import get_args

import pytest

from dragoman.mappings.canonical import Command, commands
from dragoman.mappings.canonical.values import FileAttachment, ImageAttachment, Text
from dragoman.mappings.dialect import Burst, Rendered
from dragoman.mappings.pod import DIALECT
from dragoman.mappings.pod.from_canonical.commands import FROM_COMMAND
from dragoman.mappings.rules import Nothing
from tests.samples import full


def written(command: Command) -> Rendered:
    return DIALECT.commands.write(Burst(items=[command]))


@pytest.mark.parametrize(
    ("command", "frame"),
    [
        (commands.InjectNote(text="n"), b'{"method":"notify","params":{"message":"n"}}'),
        (commands.ResumeTurn(), b'{"method":"resume"}'),
        (commands.CancelTurn(), b'{"method":"cancel"}'),
        (commands.PauseTurn(), b'{"method":"pause"}'),
        (commands.Compact(), b'{"method":"compact"}'),
        (commands.ShutdownBackend(), b'{"method":"shutdown"}'),
        (commands.ListSessions(limit=3), b'{"method":"list_visible_pods"}'),
        (commands.GetSession(session="k"), b'{"method":"inspect_pod","params":{"name":"k"}}'),
        (commands.ResumeSession(session="k"), b'{"method":"attach_or_restore_pod","params":{"name":"k"}}'),
        (
            commands.ListCompletions(kind="file", prefix="s"),
            b'{"method":"list_completions","params":{"kind":"file","prefix":"s"}}',
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_command_is_written_as_its_method(command: Command, frame: bytes) -> None:
    assert written(command) == Rendered(frames=[frame], losses=[])


def test_each_attachment_is_a_loss_of_its_own() -> None:
    attached = (ImageAttachment(url="u"), FileAttachment(name="f", url="v"))
    (loss,) = written(commands.SubmitInput(segments=(Text(text="x"), *attached))).losses
    assert (loss.field, loss.count) == ("segments", 2)


def test_open_session_writes_nothing_and_is_no_loss() -> None:
    assert written(commands.OpenSession(agent="a")) == Rendered(frames=[], losses=[])


@pytest.mark.parametrize(
    "kind", [k for k in get_args(Command) if isinstance(FROM_COMMAND.entries[k].fidelity, Nothing)]
)
def test_a_command_without_a_method_is_counted_with_its_reason(kind: type[Command]) -> None:
    entry = FROM_COMMAND.entries[kind]
    assert isinstance(entry.fidelity, Nothing)
    rendered = written(full(kind))
    assert rendered.frames == []
    assert [(loss.kind, loss.why) for loss in rendered.losses] == [(kind.__name__, entry.fidelity.why)]


def test_fields_without_a_place_in_a_run_are_counted_one_by_one() -> None:
    command = commands.SubmitInput(segments=(Text(text="x"), ImageAttachment(url="u")), model="m")
    rendered = DIALECT.commands.write(Burst(items=[command]))
    assert rendered.frames == [b'{"method":"run","params":{"input":[{"kind":"text","content":"x"}]}}']
    assert [(loss.kind, loss.field) for loss in rendered.losses] == [
        ("SubmitInput", "model"),
        ("SubmitInput", "segments"),
    ]


def test_completions_of_an_unknown_kind_are_not_requested() -> None:
    rendered = DIALECT.commands.write(Burst(items=[commands.ListCompletions(kind="emoji", prefix="")]))
    assert (rendered.frames, [loss.field for loss in rendered.losses]) == ([], ["kind"])
