"""The texts of refusals; test_server.py has the calls that are refused."""

from __future__ import annotations

from dragoman.mappings.canonical import commands
from dragoman.mappings.canonical.values import Failure
from dragoman.mappings.pando.translator.refusals import TEXT_MAX, bad_params, method_of, refusal
from dragoman.mappings.pando.vocabulary import keep


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


def test_the_text_of_a_refusal_is_bounded() -> None:
    assert len(bad_params("session.get", {"params": 1}, "x" * 10_000).message) == TEXT_MAX
    assert len(refusal(commands.Ping(), Failure(cause="internal", text="x" * 10_000)).message) == TEXT_MAX
