"""The listener of a link: whether it leads to one session for as long as the gateway runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dragoman.gateway.ingress import NEW, Directory, Ingress
from dragoman.mappings.canonical import Event, SessionState
from dragoman.mappings.canonical.commands import GetSession, ListSessions, ResumeSession
from dragoman.mappings.canonical.events import Reply


class Folders:
    """A directory that answers every question in the same way."""

    def answer(
        self,
        command: ListSessions | GetSession | ResumeSession,
        own: SessionState,
        sees: Callable[[SessionState], bool],
    ) -> Event:
        return Reply(request=command.request)


@pytest.mark.parametrize(
    ("directory", "session", "lasting"),
    [(None, "", True), (None, "0b0e", True), (Folders(), NEW, True), (Folders(), "0b0e", False)],
)
def test_only_the_folder_of_one_session_goes_with_its_session(
    directory: Directory | None, session: str, lasting: bool
) -> None:
    assert Ingress(directory=directory, session=session).is_lasting is lasting
