"""One session by itself: what is kept of it is bounded. Its turns are tested through the link, in test_client.py."""

from __future__ import annotations

from mappings.canonical import events as say
from mappings.canonical.values import Message
from mappings.pando.translator.following import ECHOES_MAX, TEXT_MAX, Following, Patience

END = say.TurnEnded(end="completed")
DONE = [say.TurnResult(end="completed"), say.StatusChanged(status="idle")]


def echo(text: str) -> say.MessageAppended:
    return say.MessageAppended(message=Message(role="user", text=text))


def test_the_oldest_input_whose_echo_never_came_is_forgotten() -> None:
    session = Following(Patience())
    for number in range(ECHOES_MAX + 1):
        session.submitted(str(number))
    assert session.hear(echo("0"), 0) == [echo("0")]
    assert session.hear(echo("1"), 0) == []


def test_a_text_that_is_too_long_to_be_kept_is_not_repaired() -> None:
    session = Following(Patience())
    session.hear(say.TextDelta(text="x" * (TEXT_MAX + 1)), 0)
    session.hear(END, 0)
    assert session.told([Message(role="assistant", text="y", id="m")], 0) == DONE


def test_patience_is_a_choice() -> None:
    session = Following(Patience(quiet=1.0))
    session.begin(0)
    assert session.late(10**9 - 1) == []
    assert not session.wants
    session.late(10**9)
    assert session.wants


def test_a_session_without_a_turn_has_nothing_to_lose() -> None:
    assert Following(Patience()).lost() == []
