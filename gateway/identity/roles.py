"""The roles of principals: which commands each role allows. Every role includes `watch` (docs/security.md, section 1).

A test says that each command has one role, or needs none.
"""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.gateway.config.model import Role, Route
from dragoman.gateway.identity.principal import Principal
from dragoman.mappings.canonical import Command, Unmapped, commands

ALL_BUT_ADMIN: frozenset[Role] = frozenset({"watch", "send", "answer", "cancel", "open", "close"})

ROLES: dict[Role, tuple[type, ...]] = {
    "watch": (
        commands.ResumeSession,
        commands.ListSessions,
        commands.GetSession,
        commands.GetHistory,
        commands.GetGoal,
        commands.GetConfig,
        commands.ListConfig,
        commands.ListModels,
        commands.GetCapabilities,
        Unmapped,
    ),
    "send": (
        commands.SubmitInput,
        commands.PromptOnce,
        commands.InjectNote,
        commands.Compact,
        commands.ListCompletions,
        commands.RenameSession,
        commands.SetGoal,
        commands.ClearGoal,
        commands.StoreWrite,
    ),
    "answer": commands.ANSWERS,
    "cancel": (*commands.STOPS, commands.ResumeTurn),
    "open": (commands.OpenSession, commands.ForkSession),
    "close": (commands.DeleteSession, commands.ArchiveSession, commands.UnarchiveSession),
    "admin": (commands.SetConfig, commands.UnsetConfig, commands.ReloadConfig),
}
ROLE_OF: dict[type, Role] = {kind: role for role, kinds in ROLES.items() for kind in kinds}
FREE = (commands.Ping, commands.ShutdownBackend)  # a client may always be there, and leave


def needed_role(command: Command, *, shuts_down: bool) -> Role | None:
    """Return the role that a command needs, None if it needs none.

    `shuts_down` says that a client's shutdown ends the backend, and not only the client's own connection.
    """
    if isinstance(command, commands.ShutdownBackend) and shuts_down:
        return "admin"
    return None if isinstance(command, FREE) else ROLE_OF[type(command)]


def roles_of(principal: Principal, route: Route) -> frozenset[Role] | None:
    """Return the roles of a principal on a route; None if the route asks for none."""
    if not route.roles:
        return ALL_BUT_ADMIN if route.authenticated else None
    roles = _granted(principal, route.roles)
    return roles | {"watch"} if roles else roles


def _granted(principal: Principal, granted: Mapping[str, tuple[Role, ...]]) -> frozenset[Role]:
    """Return the roles that its name, its groups and `*` have together."""
    names = {principal.name, *principal.groups, "*"}
    return frozenset(role for name, roles in granted.items() if name in names for role in roles)
