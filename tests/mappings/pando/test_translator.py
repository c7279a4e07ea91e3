"""Small parts of a link with a primary or a caller: output of tools, inputs of runs, refusals."""

from __future__ import annotations

import pytest

from dragoman.mappings.canonical import Command, commands
from dragoman.mappings.canonical.values import Cause, Failure
from dragoman.mappings.errors import ERROR_TEXT_MAX
from dragoman.mappings.pando.to_canonical.commands import TO_COMMAND
from dragoman.mappings.pando.translator.output import BEFORE_MAX, LatestCall, StreamedOutput
from dragoman.mappings.pando.translator.refusals import ID_MAX, METHODS, bad_params, method_of, missing, refusal
from dragoman.mappings.pando.translator.run_input import ListCall, RunInput
from dragoman.mappings.pando.vocabulary import NO_ROWS, keep

# -- output ------------------------------------------------------------------------------------------


def test_texts_before_questions_are_kept_up_to_the_bound_of_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.mappings.pando.translator.output.TEXT_MAX", 4)
    output = StreamedOutput(LatestCall())
    for text, kept in (("ab", ("ab",)), ("cd", ("ab", "cd")), ("e", ())):
        output.add_text(text, 0)
        output = output.next(stored=False)
        assert output.before == kept


def test_texts_before_questions_are_kept_of_few_turns() -> None:
    output = StreamedOutput(LatestCall())
    for kept in (*range(1, BEFORE_MAX + 1), 0, 1):
        output.add_text("x", 0)
        output = output.next(stored=False)
        assert output.before == ("x",) * kept


# -- run input ---------------------------------------------------------------------------------------


def test_publications_wait_until_each_input_of_ours_is_answered() -> None:
    begun = RunInput(ListCall())
    begun.submit()
    begun.submit()
    assert (begun.answer(), begun.waits) == (False, True)
    assert (begun.answer(), begun.waits) == (True, False)


# -- refusals ----------------------------------------------------------------------------------------


def test_the_refusal_of_a_pando_backend_is_passed_on_unchanged() -> None:
    text = "message.send: agent runner not available on this instance"
    failure = Failure(cause="unsupported", text=text, ext=keep(code=-32000))
    problem = refusal(commands.SubmitInput(segments=()), failure)
    assert (problem.code, problem.message) == (-32000, text)
    proxied = Failure(cause="invalid", text="dbproxy: CONFLICT (CreateSession): x")
    assert refusal(commands.OpenSession(), proxied).message == proxied.text


def test_the_method_of_a_write_is_the_inner_method() -> None:
    assert method_of(commands.StoreWrite(method="CreateFile")) == "CreateFile"
    assert method_of(commands.RenameSession(title="T")) == "UpdateSession"
    assert TO_COMMAND.produced - METHODS.keys() == {commands.StoreWrite}


@pytest.mark.parametrize(
    ("command", "cause", "message"),
    [
        (commands.RenameSession(title="T"), "internal", "dbproxy: INTERNAL (UpdateSession): disk full"),
        (commands.RenameSession(title="T"), "not_found", f"dbproxy: INTERNAL (UpdateSession): {NO_ROWS}"),
        (commands.GetSession(), "internal", "session.get: disk full"),
        (commands.GetSession(), "not_found", f"session.get: {NO_ROWS}"),
    ],
)
def test_only_a_missing_session_is_refused_in_the_words_of_the_database(
    command: Command, cause: Cause, message: str
) -> None:
    assert refusal(command, Failure(cause=cause, text="disk full")).message == message


def test_an_id_of_the_longest_size_may_be_chosen_and_no_longer_one() -> None:
    assert missing(commands.OpenSession(session="i" * ID_MAX)) is None
    assert missing(commands.OpenSession(session="i" * (ID_MAX + 1))) is not None


def test_the_text_of_a_refusal_is_bounded() -> None:
    assert len(bad_params("session.get", {"params": 1}, "x" * 10_000).message) == ERROR_TEXT_MAX
    assert len(refusal(commands.Ping(), Failure(cause="internal", text="x" * 10_000)).message) == ERROR_TEXT_MAX
