"""The corrections of well-formed actions by a smooth server: limits, titles, and fields that are blank."""

from __future__ import annotations

import pytest

from dragoman.mappings.canonical import commands
from dragoman.mappings.smooth.to_canonical.commands import TO_COMMAND
from dragoman.mappings.smooth.translator.admission import REQUIRED
from tests.mappings.smooth.server_link import HISTORY, LIST, RENAME, SEND, Link


def test_each_action_has_required_fields_but_those_that_servers_take_without() -> None:
    assert TO_COMMAND.produced - REQUIRED.keys() == {commands.Ping, commands.CancelTurn, commands.ListSessions}


@pytest.mark.parametrize(
    ("limit", "page", "listed"),
    [(-1, 50, 50), (0, 50, 50), (1, 1, 1), (100, 100, 100), (150, 100, 150), (10**30, 100, 200), ("9", 50, 50)],
)
def test_limits_are_clamped(limit: object, page: int, listed: int) -> None:
    link = Link()
    assert [c.limit for c in link.sends(HISTORY | {"limit": limit}, LIST | {"limit": limit})] == [page, listed]


def test_without_a_limit_a_page_has_fifty() -> None:
    assert [c.limit for c in Link().sends(HISTORY, LIST)] == [50, 50]


def test_a_title_is_trimmed_and_kept_whole() -> None:
    (command,) = Link().sends(RENAME | {"title": " " + "ab " * 30})
    assert command.title == ("ab " * 30).rstrip()


def test_an_attachment_needs_no_message() -> None:
    (command,) = Link().sends(SEND | {"message": "", "images": [{"url": "data:,"}]})
    assert type(command) is commands.SubmitInput


def test_a_blank_model_counts_as_no_model() -> None:
    (command,) = Link().sends(SEND | {"model": "  "})
    assert command.model == ""
