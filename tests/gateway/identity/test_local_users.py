"""Users at Unix sockets: the kernel identifies them, and a list may restrict who can connect."""

from __future__ import annotations

import pytest

from dragoman.adapters.base import PeerFacts
from dragoman.gateway.identity.local_users import LocalUsers
from dragoman.gateway.identity.principal import Principal, Refusal

ANN = PeerFacts(uid=1000, gid=100)


@pytest.mark.parametrize(("uids", "gids"), [((), ()), ((1000,), ()), ((1, 1000), ()), ((), (100,)), ((1,), (100,))])
def test_a_listed_user_is_named_by_its_uid(uids: tuple[int, ...], gids: tuple[int, ...]) -> None:
    assert LocalUsers(uids, gids).identify(ANN) == Principal(name="uid:1000", groups=frozenset({"gid:100"}))


@pytest.mark.parametrize(("uids", "gids"), [((1,), ()), ((), (1,)), ((0,), (0,))])
def test_a_user_that_is_not_listed_is_refused(uids: tuple[int, ...], gids: tuple[int, ...]) -> None:
    assert LocalUsers(uids, gids).identify(ANN) == Refusal(text="your user may not use this socket")


def test_a_peer_that_the_system_does_not_name_is_refused() -> None:
    assert isinstance(LocalUsers().identify(PeerFacts()), Refusal)
