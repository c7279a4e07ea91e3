"""Each authenticator names the peers that have its credential, and refuses all others."""

from __future__ import annotations

import time

import pytest

from dragoman.adapters.base import PeerFacts
from dragoman.gateway.identity import authenticators
from dragoman.gateway.identity.authenticators import (
    NEEDED,
    NOT_ACCEPTED,
    bearer_tokens,
    client_certificate,
    local_users,
    token_digest,
)
from dragoman.gateway.identity.principal import Authenticator, Principal, Refusal

ALICE, BOB = "alice-alice-alice", "bob-bob-bob-bob-bob"
ANN = PeerFacts(uid=1000, gid=100)


def bearer() -> Authenticator:
    return bearer_tokens({"alice": ALICE, "bob": BOB})


@pytest.mark.parametrize(("token", "name"), [(ALICE, "token:alice"), (BOB, "token:bob")])
def test_a_token_names_its_principal(token: str, name: str) -> None:
    assert bearer()(PeerFacts(token=token)) == Principal(name=name, credential=token_digest(token))


@pytest.mark.parametrize("token", [ALICE[:-1], ALICE + "x", ALICE.upper(), "alice", "\udcff", "ä" * 20])
def test_another_token_is_not_accepted(token: str) -> None:
    assert bearer()(PeerFacts(token=token)) == NOT_ACCEPTED


def test_a_peer_without_a_token_is_told_how_to_send_one() -> None:
    assert bearer()(PeerFacts()) == NEEDED
    assert "Authorization: Bearer" in NEEDED.text
    assert "the parameter `token`" in NEEDED.text


@pytest.mark.parametrize("token", [ALICE, BOB, "wrong"])
def test_each_attempt_is_compared_with_every_token(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(first: bytes, second: bytes) -> bool:
        compared.append((first, second))
        return first == second

    monkeypatch.setattr(authenticators, "compare_digest", compare)
    bearer()(PeerFacts(token=token))
    assert len(compared) == 2
    assert {len(side) for pair in compared for side in pair} == {32}, "the length of a secret changes the time"


def test_a_subject_names_the_principal() -> None:
    named = client_certificate(PeerFacts(certificate="CN=alice,O=Example", token="ignored"))
    assert named == Principal(name="cert:CN=alice,O=Example")


def test_a_principal_ends_when_its_certificate_expires() -> None:
    named = client_certificate(PeerFacts(certificate="CN=alice", certificate_end=9e9))
    assert named == Principal(name="cert:CN=alice", expires=9e9)


def test_a_certificate_that_has_expired_since_its_tls_session_began_is_refused() -> None:
    named = client_certificate(PeerFacts(certificate="CN=alice", certificate_end=time.time() - 1))
    assert named == Refusal(text="the certificate has expired")


def test_a_certificate_without_a_subject_is_refused() -> None:
    assert isinstance(client_certificate(PeerFacts()), Refusal)


@pytest.mark.parametrize(("uids", "gids"), [((), ()), ((1000,), ()), ((1, 1000), ()), ((), (100,)), ((1,), (100,))])
def test_a_listed_user_is_named_by_its_uid(uids: tuple[int, ...], gids: tuple[int, ...]) -> None:
    assert local_users(uids, gids)(ANN) == Principal(name="uid:1000", groups=frozenset({"gid:100"}))


@pytest.mark.parametrize(("uids", "gids"), [((1,), ()), ((), (1,)), ((0,), (0,))])
def test_a_user_that_is_not_listed_is_refused(uids: tuple[int, ...], gids: tuple[int, ...]) -> None:
    assert local_users(uids, gids)(ANN) == Refusal(text="your user may not use this socket")


def test_a_peer_that_the_system_does_not_name_is_refused() -> None:
    assert isinstance(local_users()(PeerFacts()), Refusal)
