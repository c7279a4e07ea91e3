"""The listener of a link: whether it leads to one session for as long as the gateway runs."""

from __future__ import annotations

import pytest

from dragoman.gateway.ingress import NEW, AnswerAboutPods, Ingress
from dragoman.mappings.canonical.events import Reply


@pytest.mark.parametrize(
    ("about_pods", "session", "lasting"),
    [
        (None, "", True),
        (None, "0b0e", True),
        (lambda command, _own, _sees: Reply(request=command.request), NEW, True),
        (lambda command, _own, _sees: Reply(request=command.request), "0b0e", False),
    ],
)
def test_only_the_folder_of_one_session_goes_with_its_session(
    about_pods: AnswerAboutPods | None, session: str, lasting: bool
) -> None:
    assert Ingress(about_pods=about_pods, session=session).is_lasting is lasting
