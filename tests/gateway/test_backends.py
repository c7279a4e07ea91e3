"""Kinds of backend: each route has one, and the router uses all of them in the same way."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from dragoman.gateway import registry
from dragoman.gateway.backends.conversations import ConversationsKind, ReplayedKind
from dragoman.gateway.backends.kind import BackendKind
from dragoman.gateway.backends.shared import SharedKind
from dragoman.gateway.backends.single import SingleKind
from dragoman.gateway.routing.sessions import Sessions
from dragoman.gateway.upstreams import kind_of
from tests.gateway.backends.in_memory_pando import in_memory_pando_gateway
from tests.gateway.in_memory import in_memory_gateway


@pytest.mark.parametrize(
    ("dialect", "options", "kind"),
    [
        ("pod", {}, SingleKind),
        ("pando", {}, SharedKind),
        ("smooth", {}, ConversationsKind),
        ("codewhale", {}, ConversationsKind),
        ("codewhale", {"in_process": True}, ReplayedKind),
    ],
)
async def test_each_upstream_has_its_kind_of_backend(
    dialect: str, options: dict[str, Any], kind: type[BackendKind]
) -> None:
    spoken = registry.dialect(dialect)
    async with in_memory_gateway() as made, in_memory_pando_gateway() as shared:
        chosen = kind_of(spoken, shared.gateway._upstream, **options)
        route = structs.replace(made.router.route, name="other")
        sessions = Sessions(route, made.services, spoken, lambda _link: None, None)
        assert type(chosen(sessions)) is kind


async def test_a_shared_backend_has_no_second_connection_for_requests() -> None:
    async with in_memory_pando_gateway() as made:
        assert made.router._backend.control() is None


async def test_other_backends_have_a_second_connection_for_requests() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        control = made.router._backend.control()
        assert control is made.router._backend.control()
        assert control not in made.router.sessions
