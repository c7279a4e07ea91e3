"""The context of a session: its log lines name the session as it is called now."""

from __future__ import annotations

from typing import Any

from structlog.testing import capture_logs

from dragoman.gateway.session.context import SessionContext
from dragoman.mappings.canonical import SessionState


def test_a_line_has_the_id_that_the_session_has_now_and_its_owner() -> None:
    parts: dict[str, Any] = dict.fromkeys(SessionContext.__struct_fields__)
    state = SessionState(id="provisional")
    context = SessionContext(**{**parts, "state": state})
    state.id, state.owner = "named by its backend", "token:alice"
    with capture_logs() as logs:
        context.log.info("idle")
    assert (logs[0]["session"], logs[0]["principal"]) == ("named by its backend", "token:alice")
