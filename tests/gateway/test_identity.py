"""The roles of principals, what each allows and who has it, and the principal of a link without authentication."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import get_args

import pytest

from dragoman.gateway.config.model import Role, Route
from dragoman.gateway.endpoint import parse
from dragoman.gateway.identity.principal import ALL_BUT_ADMIN, FREE, LOCAL, ROLES, Principal, needed_role, roles_of
from dragoman.gateway.peer import Peer
from dragoman.mappings.canonical import Command, commands
from dragoman.mappings.pod import DIALECT

ANN = Principal(name="token:ann", groups=frozenset({"group:ops"}))
Roles = dict[str, tuple[Role, ...]]


def route(roles: Roles, *, authenticated: bool = True) -> Route:
    listen = (parse("smooth+ws://127.0.0.1:0/ws"),)
    return Route(name="r", listen=listen, upstream=parse("pod+unix:/u"), roles=roles, authenticated=authenticated)


def test_an_authenticated_client_may_by_default_do_everything_but_admin() -> None:
    assert roles_of(ANN, route({})) == ALL_BUT_ADMIN
    assert {*ALL_BUT_ADMIN, "admin"} == set(get_args(Role))


def test_a_route_without_authentication_asks_for_no_role() -> None:
    assert roles_of(ANN, route({}, authenticated=False)) is None


@pytest.mark.parametrize(
    ("granted", "has"),
    [
        ({"token:ann": ("send",)}, {"watch", "send"}),
        ({"group:ops": ("admin",)}, {"watch", "admin"}),
        ({"*": ("watch",), "token:ann": ("cancel",)}, {"watch", "cancel"}),
        ({"token:bob": ("send",)}, set()),
    ],
)
def test_roles_are_those_of_the_name_the_groups_and_everybody(granted: Roles, has: set[Role]) -> None:
    assert roles_of(ANN, route(granted)) == frozenset(has)


@pytest.mark.parametrize(
    ("command", "role"),
    [
        (commands.Ping(), None),
        (commands.ListSessions(), "watch"),
        (commands.GetHistory(session="s"), "watch"),
        (commands.ResumeSession(session="s"), "watch"),
        (commands.SubmitInput(session="s", segments=()), "send"),
        (commands.ListCompletions(kind="file", prefix=""), "send"),
        (commands.AnswerOtp(session="s", code="1"), "answer"),
        (commands.CancelTurn(session="s"), "cancel"),
        (commands.OpenSession(), "open"),
        (commands.DeleteSession(session="s"), "close"),
        (commands.ReloadConfig(), "admin"),
    ],
)
def test_a_command_needs_its_role(command: Command, role: Role | None) -> None:
    assert needed_role(command, shuts_down=False) == role


def test_each_command_has_one_role_or_needs_none() -> None:
    entries = [*FREE, *chain.from_iterable(ROLES.values())]
    assert Counter(entries) == Counter(get_args(Command))
    assert set(ROLES) == set(get_args(Role))


@pytest.mark.parametrize(("shuts_down", "role"), [(True, "admin"), (False, None)])
def test_a_shutdown_needs_admin_only_if_it_ends_the_backend(shuts_down: bool, role: Role | None) -> None:
    assert needed_role(commands.ShutdownBackend(), shuts_down=shuts_down) == role


# -- principal ---------------------------------------------------------------------------------------


def test_a_peer_without_authentication_is_local() -> None:
    assert Peer(id="l1", dialect=DIALECT).principal is LOCAL
    assert Principal(name="local") == LOCAL
