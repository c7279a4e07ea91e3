"""The type of an error tells which side is at fault, and its fields tell how to continue."""

from __future__ import annotations

import pytest

from dragoman.mappings.errors import ConfigError, DragomanError, PeerError, first_error


@pytest.mark.parametrize("kind", [ConfigError, PeerError])
def test_each_error_is_a_dragoman_error_and_none_is_another(kind: type[DragomanError]) -> None:
    assert kind.__bases__ == (DragomanError,)


def test_a_peer_error_can_continue_by_default() -> None:
    assert PeerError("invalid", "t").can_continue
    assert not PeerError("flooding", "t", can_continue=False).can_continue


def test_a_peer_error_keeps_code_text_and_value() -> None:
    error = PeerError("invalid", "no such thing", value={"requestId": "r"})
    assert (error.code, error.text, str(error), error.value) == (
        *("invalid", "no such thing", "no such thing", {"requestId": "r"}),
    )


def test_the_error_of_nested_groups_is_the_first_that_is_not_a_group() -> None:
    error = OSError("refused")
    assert first_error(BaseExceptionGroup("", [BaseExceptionGroup("", [error]), ValueError()])) is error
    assert first_error(error) is error
