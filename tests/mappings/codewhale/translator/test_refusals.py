"""Refusals of a server, method by method."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.mappings.canonical import Command, commands
from dragoman.mappings.canonical.values import Cause, Failure
from dragoman.mappings.codewhale.to_canonical.events import failure_of
from dragoman.mappings.codewhale.translator.refusals import of_seed, refusal, unknown_method
from dragoman.mappings.codewhale.vocabulary import HEAD, LATER, SEED, keep
from dragoman.mappings.codewhale.wire.results import Problem
from dragoman.mappings.extras import raw

GHOST = "thread-ghost"


def no(command: Any, cause: Cause = "not_found", generation: str = HEAD, text: str = "no") -> Any:
    said = refusal(command, Failure(cause=cause, text=text), GHOST, generation)
    return json.loads(bytes(raw(said)))


@pytest.mark.parametrize(
    "command",
    [
        commands.GetSession(),
        commands.RenameSession(title="x"),
        commands.ArchiveSession(),
        commands.UnarchiveSession(),
        commands.GetGoal(),
        commands.ClearGoal(),
        commands.PromptOnce(prompt="x"),
    ],
)
def test_a_client_of_0_10_2_is_refused_a_request_about_an_unknown_thread(command: Command) -> None:
    """docs/dialects/codewhale.md, section 12."""
    data = {"error": "thread_not_found", "thread_id": GHOST}
    assert no(command, generation=LATER) == {"code": -32004, "message": f"thread not found: {GHOST}", "data": data}


def test_the_own_refusal_of_a_prompt_in_an_unknown_thread_is_passed_on() -> None:
    """A codewhale 0.10.2 refuses it like an input (docs/dialects/codewhale.md, section 12)."""
    data = {"error": "thread_not_found", "thread_id": GHOST}
    failure = Failure(cause="not_found", text=f"thread not found: {GHOST}", ext=keep(code=-32004, data=raw(data)))
    said = refusal(commands.PromptOnce(prompt="x"), failure, GHOST, HEAD)
    assert json.loads(bytes(raw(said))) == {"code": -32004, "message": f"thread not found: {GHOST}", "data": data}


@pytest.mark.parametrize(
    ("command", "data"),
    [
        (commands.GetSession(), {"history": [], "checkpoint": None, "goal": None}),
        (commands.RenameSession(title="x"), {}),
    ],
)
def test_a_missing_thread_is_answered_by_the_method_that_the_client_called(command: Command, data: Any) -> None:
    """The gateway resumes a thread before it acts on it. A codewhale 0.8.59 refuses the resume with a result, and
    answers these methods for an unknown thread with the status `ok` (docs/dialects/codewhale.md, section 2).
    """
    failure = Failure(cause="not_found", text="no", ext=keep(result={"thread_id": GHOST, "status": "missing"}))
    said = json.loads(bytes(raw(refusal(command, failure, GHOST, SEED))))
    assert said == {"thread_id": GHOST, "status": "ok", "threads": [], "events": [], "data": data}


@pytest.mark.parametrize("command", [commands.ResumeSession(), commands.ForkSession()])
def test_a_missing_thread_of_an_older_backend_is_an_error_to_a_newer_client(command: Command) -> None:
    """The generations differ in this answer (docs/dialects/codewhale.md, section 10)."""
    failure = Failure(cause="not_found", text="no", ext=keep(result={"thread_id": GHOST, "status": "missing"}))
    said = refusal(command, failure, GHOST, HEAD)
    assert isinstance(said, Problem)
    assert (said.code, json.loads(bytes(said.data))) == (-32004, {"error": "thread_not_found", "thread_id": GHOST})


def test_an_interrupt_in_an_unknown_thread_interrupts_nothing() -> None:
    assert no(commands.CancelTurn()) == {"thread_id": GHOST, "interrupted": False}


def test_a_missing_thread_is_a_result_for_clients_of_the_seed() -> None:
    assert no(commands.ForkSession(), generation=SEED)["status"] == "missing"


def test_unsupported_goals_are_a_result_that_is_not_ok_so_that_the_server_does_not_look_old() -> None:
    setting = no(commands.SetConfig(key="k", value="v"), "unsupported")
    assert setting == {"ok": False, "data": {"key": "k", "value": "v", "error": "no"}, "events": []}
    assert no(commands.ListModels(), "unsupported") == {"ok": False, "data": {"error": "no"}, "events": []}
    goal = no(commands.SetGoal(objective="x"), "unsupported")
    assert (goal["ok"], goal["thread_id"], goal["data"]) == (False, GHOST, {"error": "no"})


def test_a_goal_that_a_server_of_0_10_2_refuses_has_its_error() -> None:
    data = {"error": "interactive_execution_unsupported", "goal_execution": False}
    failure = failure_of(Problem(code=-32602, message="no", data=raw(data)))
    said = refusal(commands.SetGoal(objective="o"), failure, GHOST, HEAD)
    assert json.loads(bytes(raw(said))) == {"code": -32602, "message": "no", "data": data}


def test_other_unsupported_commands_are_unknown_methods_and_a_busy_backend_fails() -> None:
    assert no(commands.ForkSession(), "unsupported") == {
        "code": -32601,
        "message": "unsupported method: thread/fork: no",
        "data": None,
    }
    assert no(commands.PromptOnce(prompt="x", ext=keep(method="prompt/request")), "unsupported")["message"] == (
        "unsupported method: prompt/request: no"
    )
    already = no(commands.CancelTurn(), "unsupported", text="unsupported method: thread/interrupt")
    assert already["message"] == "unsupported method: thread/interrupt"
    assert no(commands.SubmitInput(segments=()), "busy")["code"] == -32603


def test_an_input_with_unsupported_attachments_fails_because_its_method_is_known() -> None:
    assert no(commands.SubmitInput(segments=()), "unsupported") == {"code": -32603, "message": "no", "data": None}


def test_the_refusal_of_a_backend_of_this_dialect_is_repeated() -> None:
    result = {"ok": False, "data": {"error": "request_id already resolved", "request_id": "q"}, "events": []}
    failure = Failure(cause="internal", text="request_id already resolved", ext=keep(result=result))
    said = refusal(commands.AnswerInteraction(question="q"), failure, GHOST, HEAD)
    assert json.loads(bytes(raw(said))) == result


def test_only_later_commands_are_unknown_to_the_seed() -> None:
    assert of_seed(commands.Ping()) is None
    assert of_seed(commands.CancelTurn()) == unknown_method("thread/interrupt")
    problem = of_seed(commands.ReloadConfig(ext=keep(method="app/request")))
    assert isinstance(problem, Problem)
    assert (problem.code, problem.message.partition(",")[0]) == (-32602, "unknown variant `config_reload`")
