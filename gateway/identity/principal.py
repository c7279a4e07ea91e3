"""The principal of a client, and the commands that its role allows (docs/security.md, section 1).

The authenticator of a listener makes a principal of what the listener knows of the peer:

token:alice   a bearer token of the configuration      uid:1000   the user of a process at a Unix socket
jwt:alice     the subject of a JSON Web Token          cert:CN=alice   the subject of a client certificate
local         anybody, at a listener without authentication

Every role includes `watch`. A test says that each command has one role, or needs none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from dragoman.adapters.base import PeerFacts
from dragoman.gateway.config.model import Role, Route
from dragoman.mappings.canonical import Command, Unmapped, commands


class Principal(Struct, frozen=True, kw_only=True):
    """The user at the other end of a link. `groups` are the names by which roles may mean several users at once."""

    name: str
    groups: frozenset[str] = frozenset()
    expires: float | None = None
    """Seconds since 1970 at which the credential ends, and with it the link."""
    token: str = ""
    """The bearer token that the client presented, if its route passes it on. It is a secret: it is never logged."""
    credential: bytes = b""
    """The digest of what names this client: a token of the configuration, or the [auth.jwt] that checked its token.

    It is empty if something else names the client.
    """

    def __repr__(self) -> str:
        return f"Principal({self.name!r})"


class Refusal(Struct, frozen=True, kw_only=True):
    """The reason why a peer is not accepted, in words for the peer. It contains no secret.

    `refresh` may find what is missing; if it returns True, the peer is to be identified again.
    """

    text: str
    refresh: Callable[[], Awaitable[bool]] | None = None


Authenticator = Callable[[PeerFacts], Principal | Refusal]
"""Returns the principal of a peer of a listener, or why the peer is refused."""


LOCAL = Principal(name="local")
"""The principal of every client without authentication."""


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
