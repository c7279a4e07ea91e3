"""Check the keys that say who may use a route (docs/security.md, section 1).

Each name in `roles` and `[principals]` must be one that some client can have. Without the check, a role of a misspelt
or removed name would have no effect, and no error would show it.

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
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import structs

from dragoman.adapters.host_names import is_loopback
from dragoman.gateway import registry
from dragoman.gateway.config.lines import Found, KeyPath
from dragoman.gateway.config.model import Auth, Jwt, Route
from dragoman.gateway.config.shape import join_words, table_at, texts_in
from dragoman.gateway.config.source import why_guessable
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.identity.listeners import authenticates, names_clients

Endpoints = Mapping[KeyPath, Endpoint]
"""Endpoints of a route by their keys."""

ASKING = ("uid", "gid", "client_ca")  # options of a listener that needs authentication
PRINCIPALS = ("token:", "jwt:", "uid:", "cert:")
GROUPS = ("group:", "gid:")
NUMBER = re.compile("0|[1-9][0-9]*")
SECRET_MIN = 32  # characters: as many as the bytes of an HS256 signature (RFC 7518, section 3.2)


def resolve_access(route: Route, auth: Auth) -> Route:
    """Return the route with `authenticated` set, and with `share` resolved if it was `auto`."""
    authenticated = _authenticated(route.listen, route.share, route.roles, auth)
    share = route.share if route.share != "auto" else "owner" if authenticated else "all"
    return structs.replace(route, authenticated=authenticated, share=share)


def _authenticated(listen: Collection[Endpoint], share: str, roles: Any, auth: Auth) -> bool:
    listener_asks = any(any(map(endpoint.option, ASKING)) for endpoint in listen)
    asked = listener_asks or bool(roles) or share == "owner" or bool(auth.tokens) or auth.jwt.is_used
    return asked and any(names_clients(endpoint, auth) for endpoint in listen)


def share_faults(listen: Endpoints, share: Any, roles: Any, auth: Auth) -> Iterator[Found]:
    """Yield the key of each listener that cannot distinguish the owners of sessions, and what to write instead."""
    owned = share == "owner" or (share in (None, "auto") and _authenticated(listen.values(), "auto", roles, auth))
    for key, endpoint in listen.items():
        if not owned or names_clients(endpoint, auth):
            continue
        remedy = (
            "configure [auth.tokens]" if endpoint.is_web_socket else 'give it a route of its own with `share = "all"`'
        )
        yield key, f"{endpoint.masked} cannot tell its clients apart, so no session can have an owner; {remedy}"


def forward_faults(listen: Endpoints, upstreams: Endpoints, auth: Auth) -> Iterator[Found]:
    """Yield the key of each endpoint that does not let tokens of clients be passed on, and what to write instead."""
    for key, endpoint in upstreams.items():
        if "token" not in registry.spec_of(endpoint).dial_options:
            text = f"{endpoint.masked}: only a WebSocket has a place for the token of a client"
            yield key, f"{text}; write upstream_auth = 'own'"
        elif endpoint.option("token"):
            yield key, f"{endpoint.masked}: `token` and upstream_auth = 'forward' exclude each other; remove one"
    for key, endpoint in listen.items():
        if not endpoint.is_web_socket:
            yield key, f"{endpoint.masked}: its clients have no token to pass on; give it a route of its own"
        elif endpoint.option("client_ca"):
            yield key, f"{endpoint.masked}: its clients have a certificate, and no token to pass on; remove `client_ca`"
        elif not (auth.tokens or auth.jwt.is_used):
            yield key, f"{endpoint.masked}: the tokens that it passes on are not checked; configure [auth]"


def is_public(endpoint: Endpoint) -> bool:
    """Return True if processes on other machines can reach a checked listener."""
    if not endpoint.is_of_network:
        return False
    return not is_loopback(urlsplit(f"ws:{endpoint.address}").hostname or "")


def public_faults(listen: Endpoints, auth: Auth, allow: str) -> Iterator[Found]:
    """Yield the key of each listener that other machines can use without authentication, and what to write instead.

    `allow` is what the user writes to allow it.
    """
    for key, endpoint in listen.items():
        if not is_public(endpoint) or authenticates(endpoint, auth):
            continue
        has_keys = "curve_key" in registry.spec_of(endpoint).listen_options
        keys = "add `?curve_key=...&client_keys=...`, " if has_keys else ""
        remedy = "configure [auth.tokens], " if endpoint.is_web_socket else keys
        text = f"{endpoint.masked} would accept clients from other machines without authentication"
        yield key, f"{text}; {remedy}listen on 127.0.0.1, or write {allow} if that is intended"


def auth_faults(table: Any) -> Iterator[Found]:
    """Yield each token that can be guessed or that no client can send, and each token that two names have."""
    names: dict[str, str] = {}
    for name, text in table_at(table, "tokens").items():
        if not isinstance(text, str):
            continue
        at = ("auth", "tokens", name)
        if why := why_guessable("token", text):
            yield at, why
        elif not text.isprintable():  # of a file with several lines
            yield at, "a token has only one line, and no control character, because it is sent in an HTTP header"
        elif text in names:
            yield at, f"the same token as {names[text]!r}: give each name a token of its own"
        names.setdefault(text, name)


def jwt_faults(table: Any) -> Iterator[Found]:
    """Yield what is wrong with `[auth.jwt]`."""
    at = ("auth", "jwt")
    try:
        jwt = msgspec.convert(table, Jwt)
    except msgspec.ValidationError:
        return  # reported with the shape of the file
    if not jwt.is_used:
        if jwt != Jwt():
            yield at, "write `secret` for HS256, or `jwks` for RS256 and ES256"
        return
    if jwt.secret and jwt.jwks:
        yield (*at, "jwks"), "write either `secret` or `jwks`: an authority signs with one kind of key"
    if not jwt.audience:
        yield at, "the key 'audience' is missing: without it a token for another service would be accepted"
    if 0 < len(jwt.secret) < SECRET_MIN:
        yield (*at, "secret"), f"a secret of {len(jwt.secret)} characters is too short for HS256; write {SECRET_MIN}"
    if jwt.jwks:
        yield from (((*at, "jwks"), text) for text in _jwks_faults(jwt.jwks))
    try:
        for name in ("cryptography", "dragoman.gateway.identity.json_web_tokens"):
            import_module(name)
    except ImportError as error:  # of another version, too, if the package was replaced under a gateway
        yield at, f"{error}; install the extra: {sys.executable} -m pip install 'dragoman[jwt]'"


def _jwks_faults(source: str) -> Iterator[str]:
    if "://" not in source:
        if not Path(source).is_file():
            yield f"no such file: {source}"
    elif not source.startswith(("https://", "http://")):
        yield "write the path of a file, or an https URL"
    elif source.startswith("http://") and not is_loopback(urlsplit(source).hostname or ""):
        yield "keys from another machine need https"


def person_faults(persons: Any, auth: Auth) -> Iterator[tuple[str, int, str]]:
    """Yield the person and the index of each name in `[principals]` that no client can have, with the reason.

    A name of two persons is an error of the second one.
    """
    known: dict[str, str] = {}
    for person, names in table_at(persons).items():
        for index, name in texts_in(names):
            if not name.startswith(PRINCIPALS):
                forms = join_words(f"{kind}NAME" for kind in PRINCIPALS)
                yield person, index, f"invalid principal {name!r}: write {forms}"
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
            forms = join_words([f"{kind}NAME" for kind in (*PRINCIPALS, *GROUPS)] + ["*", "a person of [principals]"])
            yield name, f"invalid principal {name!r}: write {forms}"
        elif listeners and (why := _why_nobody(name, listeners, auth, persons)):
            yield name, f"no client of this route can be {name!r}, so nobody would have this role: {why}"


def _why_nobody(name: str, listeners: list[Endpoint], auth: Auth, persons: Mapping[str, Any]) -> str:
    """Return why no client of these listeners has this name; "" if one can have it."""
    if name in persons:
        reasons = [_why_nobody(alias, listeners, auth, {}) for _at, alias in texts_in(persons[name])]
        return "no listener can name one of this person's principals" if all(reasons) else ""
    if why := _missing_credential(name, auth):
        return why
    if any(_can_name(listener, name, auth) for listener in listeners):
        return ""
    kind = name.partition(":")[0]
    if kind in ("uid", "gid") and any(listener.is_of_local_users for listener in listeners):
        return "`uid` and `gid` of the listeners do not allow it"
    return "no listener of the route gives its clients such names"


def _missing_credential(name: str, auth: Auth) -> str:
    """Return the credential that the configuration lacks for a name, or the error in its number; "" for neither."""
    kind, _, rest = name.partition(":")
    if kind == "token" and rest not in auth.tokens:
        return f"[auth.tokens] has no {rest!r}"
    if kind in ("jwt", "group") and not auth.jwt.is_used:
        return "[auth.jwt] is not configured"
    if kind in ("uid", "gid") and NUMBER.fullmatch(rest) is None:
        return "write its number"
    return ""


def _can_name(listener: Endpoint, name: str, auth: Auth) -> bool:
    """Return True if a client of this listener can have this name. The credential of the name exists."""
    kind, _, rest = name.partition(":")
    if kind == "local":
        return not names_clients(listener, auth)
    if listener.is_web_socket:
        return (kind == "cert") == bool(listener.option("client_ca")) and kind not in ("uid", "gid")
    users, groups = listener.all("uid"), listener.all("gid")
    if not listener.is_of_local_users or kind not in ("uid", "gid"):
        return False
    # A user may be allowed by its group, and a group by its users: each option alone decides only its own kind.
    own, other = (users, groups) if kind == "uid" else (groups, users)
    return bool(other) or not own or rest in own
