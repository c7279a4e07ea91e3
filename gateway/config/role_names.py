"""The names in `roles` and `[principals]`: each must be one that some client can have.

A role of a misspelt or removed name would never be given, and nobody would notice.

name            exists if a listener of the route
token:NAME      takes tokens, and `[auth.tokens]` has this name
jwt:, group:    takes tokens, and `[auth.jwt]` is configured
cert:           has `client_ca`
uid:, gid:      is a Unix socket or stdio, and its `uid` and `gid` allow it
local           cannot tell its clients apart
a person        has one of the person's principals
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dragoman.gateway.config.model import Auth
from dragoman.gateway.config.shape import either, table_at, texts_in
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.identity.listeners import OF_LOCAL_USERS, OF_WEB_SOCKETS, names_clients

PRINCIPALS = ("token:", "jwt:", "uid:", "cert:")
GROUPS = ("group:", "gid:")
NUMBER = re.compile("0|[1-9][0-9]*")


def person_faults(persons: Any, auth: Auth) -> Iterator[tuple[str, int, str]]:
    """Yield the person and the index of each name in `[principals]` that no client can have, with the reason.

    A name of two persons is an error of the second one.
    """
    known: dict[str, str] = {}
    for person, names in table_at(persons).items():
        for index, name in texts_in(names):
            if not name.startswith(PRINCIPALS):
                yield person, index, f"invalid principal {name!r}: write {either(f'{kind}NAME' for kind in PRINCIPALS)}"
            elif why := _missing_credential(name, auth):
                yield person, index, f"no client can be {name!r}: {why}"
            elif known.setdefault(name, person) != person:
                yield person, index, f"{name!r} is {known[name]} already: a principal is one person"


def role_faults(
    roles: Any, listen: Iterable[Endpoint], auth: Auth, persons: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield each name in `roles` of a route that none of its clients can have, and the reason."""
    listeners = list(listen)
    for name in table_at(roles):
        if name == "*":
            continue
        if name != "local" and name not in persons and not name.startswith((*PRINCIPALS, *GROUPS)):
            forms = either([f"{kind}NAME" for kind in (*PRINCIPALS, *GROUPS)] + ["*", "a person of [principals]"])
            yield name, f"invalid principal {name!r}: write {forms}"
        elif listeners and (why := _why_nobody(name, listeners, auth, persons)):
            yield name, f"no client of this route can be {name!r}, so nobody would have this role: {why}"


def _why_nobody(name: str, listeners: list[Endpoint], auth: Auth, persons: Mapping[str, Any]) -> str:
    """Return why no client of these listeners has this name; "" if one can have it."""
    if name in persons:
        reasons = [_why_nobody(alias, listeners, auth, {}) for _at, alias in texts_in(persons[name])]
        return "no listener can name one of this person's principals" if reasons and all(reasons) else ""
    if why := _missing_credential(name, auth):
        return why
    if any(_can_name(listener, name, auth) for listener in listeners):
        return ""
    kind = name.partition(":")[0]
    if kind in ("uid", "gid") and any(listener.transport in OF_LOCAL_USERS for listener in listeners):
        return "`uid` and `gid` of the listeners do not allow it"
    return "no listener of the route names its clients so"


def _missing_credential(name: str, auth: Auth) -> str:
    """Return which credential the configuration lacks for a name, or what is wrong with its number; "" if nothing."""
    kind, _, rest = name.partition(":")
    if kind == "token" and rest not in auth.tokens:
        return f"[auth.tokens] has no {rest!r}"
    if kind in ("jwt", "group") and not auth.jwt.is_used:
        return "[auth.jwt] is not configured"
    if kind in ("uid", "gid") and NUMBER.fullmatch(rest) is None:
        return "write its number"
    return ""


def _can_name(listener: Endpoint, name: str, auth: Auth) -> bool:
    """Return True if this listener can give a client this name, whose credential exists."""
    kind, _, rest = name.partition(":")
    if kind == "local":
        return not names_clients(listener, auth)
    if listener.transport in OF_WEB_SOCKETS:
        return (kind == "cert") == bool(listener.option("client_ca")) and kind not in ("uid", "gid")
    users, groups = listener.all("uid"), listener.all("gid")
    if listener.transport not in OF_LOCAL_USERS or kind not in ("uid", "gid"):
        return False
    # A user may be allowed by its group, and a group by its users: each option alone decides only its own kind.
    own, other = (users, groups) if kind == "uid" else (groups, users)
    return bool(other) or not own or rest in own
