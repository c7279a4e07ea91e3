"""The errors with which a primary refuses each method (docs/dialects/pando.md, sections 5 to 7).

Real clients compare the texts, so these are the exact texts of a primary.
"""

from __future__ import annotations

import re

from dragoman.mappings.canonical import Command, commands
from dragoman.mappings.canonical.values import Failure, flatten
from dragoman.mappings.errors import ERROR_TEXT_MAX, PeerError
from dragoman.mappings.jsonrpc import NO_METHOD
from dragoman.mappings.pando.vocabulary import (
    BAD_JSON,
    CODE_OF_CAUSE,
    FAILED,
    NO_METHOD_TEXT,
    NO_ROWS,
    WRITE_CODE,
    given,
)
from dragoman.mappings.pando.wire.replies import Problem

ID_MAX = 256  # characters of an id that a client chooses: seven times the length of a UUID


METHODS: dict[type, str] = {
    commands.Ping: "instance.ping",
    commands.GetCapabilities: "instance.info",
    commands.ListSessions: "session.list",
    commands.GetSession: "session.get",
    commands.ResumeSession: "session.activate",
    commands.GetHistory: "message.list",
    commands.SubmitInput: "message.send",
    commands.CancelTurn: "session.interrupt",
    commands.OpenSession: "CreateSession",
    commands.RenameSession: "UpdateSession",
    commands.DeleteSession: "DeleteSession",
}
"""Commands -> the method of the call, or the method inside of a `db.write`."""

WRITES = (commands.OpenSession, commands.RenameSession, commands.DeleteSession, commands.StoreWrite)


TYPES: dict[str, str] = {
    "session.get": "protocol.SessionGetParams",
    "session.activate": "protocol.SessionActivateParams",
    "message.list": "protocol.MessageListParams",
    "message.send": "protocol.MessageSendParams",
    "session.interrupt": "protocol.SessionInterruptParams",
    "db.write": "dbproxy.WriteRequest",
    "CreateSession": "db.CreateSessionParams",
    "UpdateSession": "db.UpdateSessionParams",
    "DeleteSession": "string",
}
"""The method of a call, or of a write inside of a `db.write` -> the Go type of its params."""

WRONG_TYPE = re.compile(r"Expected `(\w+)[^`]*`, got `(\w+)` - at `\$\.params(?:\.params)?(?:\.(\w+))?`$")
GO_KINDS = {"int": "number", "float": "number", "str": "string"}
GO_FIELDS = {"str": "string", "int": "int64", "float": "float64"}
ENDED = "unexpected end of JSON input"


def method_of(command: Command) -> str:
    return command.method if isinstance(command, commands.StoreWrite) else METHODS.get(type(command), "")


def unknown_method() -> Problem:
    return Problem(code=NO_METHOD, message=NO_METHOD_TEXT)


def of_fault(fault: PeerError) -> tuple[str, Problem]:
    """Return the id to answer and the error, for a frame that is not a request or has wrong params."""
    value = fault.value if isinstance(fault.value, dict) else {}
    request, method = value.get("id", ""), value.get("method", "")
    if fault.code == "invalid" and isinstance(request, str) and isinstance(method, str) and method:
        words = fault.text.partition(": ")[2] or fault.text
        return request, bad_params(method, value, words)
    if fault.code == "too_large":  # only the gateway has limits
        return request if isinstance(request, str) else "", Problem(code=BAD_JSON, message=f"parse error: {fault.text}")
    return "", Problem(code=BAD_JSON, message="parse error")


def bad_params(method: str, value: dict[str, object], why: str) -> Problem:
    """Return the error for params that the method does not accept."""
    params = value.get("params")
    if method == "db.write":
        written = params.get("method") if isinstance(params, dict) else None
        if isinstance(written, str):
            has_params = isinstance(params, dict) and "params" in params
            text = f"dbproxy: INVALID_PARAMS ({written}): {_in_go(written, why) if has_params else ENDED}"
        else:
            text = f"dbproxy handler: unmarshal WriteRequest: {_in_go(method, why) if 'params' in value else ENDED}"
    else:
        text = f"{method}: invalid params: {_in_go(method, why) if 'params' in value else ENDED}"
    return Problem(code=FAILED, message=text[:ERROR_TEXT_MAX])


def _in_go(method: str, why: str) -> str:
    """Return Go's error text for msgspec's error about the params of a method."""
    found = WRONG_TYPE.search(why)
    if found is None or method not in TYPES:
        return f"json: {why}"
    expected, got, field = found.groups()
    whole = TYPES[method]
    name = whole.rpartition(".")[2]
    target = (
        f"value of type {whole}"
        if field is None
        else f"struct field {name}.{field} of type {GO_FIELDS.get(expected, expected)}"
    )
    return f"json: cannot unmarshal {GO_KINDS.get(got, got)} into Go {target}"


def missing(command: Command) -> Problem | None:
    """Return the error if a required param is missing, which a primary checks first; else None."""
    text = ""
    match command:
        case commands.SubmitInput() | commands.CancelTurn() | commands.GetHistory() if not command.session:
            text = "session_id is required"
        case commands.SubmitInput() if not flatten(command.segments):
            text = "content is required"
        case commands.GetSession() | commands.ResumeSession() if not command.session:
            text = NO_ROWS
        case commands.OpenSession() if len(command.session) > ID_MAX:
            return refusal(command, Failure(cause="invalid", text=f"the id is over {ID_MAX} characters"))
    return Problem(code=FAILED, message=f"{method_of(command)}: {text}") if text else None


def refusal(command: Command, failure: Failure) -> Problem:
    """Return the error for a refused command, with the text of the primary's handler."""
    method, text = method_of(command), failure.text
    code = given(failure.ext, "code", int, CODE_OF_CAUSE[failure.cause])
    if isinstance(command, WRITES):
        if text.startswith("dbproxy"):  # the text comes from a real primary
            return Problem(code=FAILED, message=text[:ERROR_TEXT_MAX])
        word = WRITE_CODE.get(failure.cause, "INTERNAL")
        if failure.cause == "not_found":
            text = NO_ROWS
        return Problem(code=FAILED, message=f"dbproxy: {word} ({method}): {text}"[:ERROR_TEXT_MAX])
    if isinstance(command, commands.GetCapabilities) and code == NO_METHOD:
        return unknown_method()
    if code == NO_METHOD:
        return Problem(code=code, message=text[:ERROR_TEXT_MAX])
    if failure.cause == "not_found" and isinstance(command, commands.GetSession | commands.ResumeSession):
        text = NO_ROWS
    if method and not text.startswith(f"{method}: "):
        text = f"{method}: {text}"
    return Problem(code=code, message=text[:ERROR_TEXT_MAX])
