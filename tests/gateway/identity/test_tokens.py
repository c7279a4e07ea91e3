"""Bearer tokens: the right one identifies its principal, and every comparison is made."""

from __future__ import annotations

import pytest

from dragoman.adapters.base import PeerFacts
from dragoman.gateway.identity import tokens
from dragoman.gateway.identity.principal import Principal
from dragoman.gateway.identity.tokens import NEEDED, NOT_ACCEPTED, BearerTokens

ALICE, BOB = "alice-alice-alice", "bob-bob-bob-bob-bob"


def bearer() -> BearerTokens:
    return BearerTokens({"alice": ALICE, "bob": BOB})


@pytest.mark.parametrize(("token", "name"), [(ALICE, "token:alice"), (BOB, "token:bob")])
def test_a_token_names_its_principal(token: str, name: str) -> None:
    assert bearer().identify(PeerFacts(token=token)) == Principal(name=name)


@pytest.mark.parametrize("token", [ALICE[:-1], ALICE + "x", ALICE.upper(), "alice", "\udcff", "ä" * 20])
def test_another_token_is_not_accepted(token: str) -> None:
    assert bearer().identify(PeerFacts(token=token)) == NOT_ACCEPTED


def test_a_peer_without_a_token_is_told_how_to_send_one() -> None:
    assert bearer().identify(PeerFacts()) == NEEDED
    assert "Authorization: Bearer" in NEEDED.text
    assert "the parameter `token`" in NEEDED.text


@pytest.mark.parametrize("token", [ALICE, BOB, "wrong"])
def test_each_attempt_is_compared_with_every_token(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(first: bytes, second: bytes) -> bool:
        compared.append((first, second))
        return first == second

    monkeypatch.setattr(tokens, "compare_digest", compare)
    bearer().identify(PeerFacts(token=token))
    assert len(compared) == 2
    assert {len(side) for pair in compared for side in pair} == {32}, "the length of a secret changes the time"
