"""Rules about the routes of a configuration: which endpoints and keys cannot be used together.

A rule yields the key of each fault, and what to write instead. The rules about who may use a route are in `access`.
"""

from __future__ import annotations

import re
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from dragoman.gateway import registry
from dragoman.gateway.config.lines import Found, KeyPath, format_key
from dragoman.gateway.config.shape import texts_in
from dragoman.gateway.endpoint import Endpoint, Place
from dragoman.mappings.canonical.commands import ShutdownBackend
from dragoman.mappings.errors import ConfigError

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(=[^\0]*)?\Z", re.DOTALL)


class Draft(Struct, frozen=True, kw_only=True):
    """A `[[route]]` as it is written, and its valid endpoints by their keys."""

    at: KeyPath
    table: Mapping[str, Any]
    listen: dict[KeyPath, Endpoint]
    upstreams: dict[KeyPath, Endpoint]

    @property
    def name(self) -> Any:
        """The name of the route, which need not be a string."""
        return self.table.get("name", "default")


def route_faults(drafts: Sequence[Draft]) -> Iterator[Found]:
    """Yield the faults of routes that are used together."""
    for rule in RULES:
        yield from rule(drafts)


def fault_of(at: KeyPath, check: Callable[..., object], *values: object) -> Iterator[Found]:
    """Yield the ConfigError that this check of the value at a key raises, if it raises one."""
    try:
        check(*values)
    except ConfigError as error:
        yield at, str(error)


def _same_names(drafts: Sequence[Draft]) -> Iterator[Found]:
    names = [draft.name for draft in drafts]
    for index, draft in enumerate(drafts):
        if draft.name in names[:index]:
            yield (*draft.at, "name"), f"duplicate route name {draft.name!r}; give each route its own `name`"


def _failovers(drafts: Sequence[Draft]) -> Iterator[Found]:
    """Find upstreams that cannot be one of several."""
    for draft in drafts:
        if len(draft.upstreams) > 1:
            yield from _failover(draft.upstreams)


def _failover(upstreams: Mapping[KeyPath, Endpoint]) -> Iterator[Found]:
    first, *_ = upstreams.values()
    seen: list[Endpoint] = []
    for key, endpoint in upstreams.items():
        text = ""
        if endpoint in seen:
            text = "is in the list twice"
        elif registry.played(endpoint):
            text = "a recording cannot be one of several upstreams; make it the only one"
        elif endpoint.is_pod_directory:
            text = "a directory cannot be one of several upstreams, it finds a live pod by itself; make it the only one"
        elif endpoint.dialect != first.dialect:
            text = f"all upstreams of a route speak one dialect, and the first speaks {first.dialect}"
        if text:
            yield key, f"{endpoint.masked}: {text}"
        seen.append(endpoint)


def _overlaps(drafts: Sequence[Draft]) -> Iterator[Found]:
    """Find listeners whose Place another listener has, and listeners at which a route would connect to itself."""
    taken: dict[Place, KeyPath] = {}
    owners: dict[Place, Draft] = {}
    for draft in drafts:
        for at, endpoint in draft.listen.items():
            places = registry.places(endpoint)
            other = next((taken[place] for place in places if place in taken), None)
            if other is not None:
                yield at, f"{endpoint.masked}: {format_key(other)} listens there already"
            for place in places:
                taken.setdefault(place, at)
                owners.setdefault(place, draft)
    for draft in drafts:
        dialled = _dialled(draft, owners)
        for at, endpoint in draft.listen.items():
            places = registry.places(endpoint)
            dialler = next((dialled[place] for place in places if place in dialled and taken[place] == at), None)
            if dialler is not None:
                by = "is the same place" if dialler is draft else f"leads here by route {dialler.name!r}"
                yield at, f"{endpoint.masked}: this route's `upstream` {by}, so it would be its own backend"


def _dialled(draft: Draft, owners: Mapping[Place, Draft]) -> dict[Place, Draft]:
    """Return each Place that an input of a route can reach through the routes, with the route that dials it."""
    dialled: dict[Place, Draft] = {}
    passed = [draft]
    for one in passed:
        for place in (place for upstream in one.upstreams.values() for place in registry.places(upstream)):
            if place not in dialled:
                dialled[place] = one
                passed += [owners[place]] if place in owners else []
    return dialled


def _sessions(drafts: Sequence[Draft]) -> Iterator[Found]:
    for draft in drafts:
        upstream = next(iter(draft.upstreams.values()), None)
        for at, endpoint in draft.listen.items() if upstream is not None else ():
            yield from fault_of(at, registry.check_session, endpoint, upstream)


def _directories(drafts: Sequence[Draft]) -> Iterator[Found]:
    """Check that the route of a directory of pods can have a folder of its name in it."""
    for draft in drafts:
        for endpoint in draft.listen.values():
            if endpoint.is_pod_directory and isinstance(draft.name, str):
                from dragoman.gateway.transports.unix import check_directory  # not needed without such a listener

                yield from fault_of((*draft.at, "name"), check_directory, endpoint.address, draft.name)


def _shutdowns(drafts: Sequence[Draft]) -> Iterator[Found]:
    """Check that only the owner's own processes can end the backend (docs/translation.md, rule 3.16)."""
    for draft in drafts:
        if draft.table.get("shutdown") != "backend" or not draft.listen:
            continue
        for upstream in list(draft.upstreams.values())[:1]:
            dialect = registry.upstream(upstream)
            if not dialect.commands.can_write_type(ShutdownBackend):
                yield (*draft.at, "shutdown"), f"'backend': a {dialect.name} backend cannot be ended by its clients"
        owners = ", ".join(f"{form}..." for form in registry.owner_only_forms())
        if not any(endpoint.is_owner_only for endpoint in draft.listen.values()):
            yield (*draft.at, "shutdown"), f"'backend' needs a listener that only its owner can reach: {owners}"
        for at, endpoint in draft.listen.items():
            can_shut_down = registry.dialect(endpoint.dialect).commands.can_read_type(ShutdownBackend)
            if can_shut_down and not endpoint.is_owner_only:
                text = (
                    f"any client of {endpoint.masked} could end the backend because of `shutdown`; listen on {owners}"
                )
                yield at, text


def _children(drafts: Sequence[Draft]) -> Iterator[Found]:
    """Check the variables and the limits of child processes."""
    for draft in drafts:
        if draft.table.get("rlimits") and not hasattr(resource, "prlimit"):
            yield (*draft.at, "rlimits"), "this system cannot limit a process that runs already; Linux can"
        for index, text in texts_in(draft.table.get("env")):
            if not VARIABLE.match(text):
                yield (
                    (*draft.at, "env", index),
                    f"{text.partition('=')[0]!r} is not a variable: write NAME or NAME=VALUE",
                )


RULES = (_failovers, _same_names, _overlaps, _sessions, _shutdowns, _directories, _children)
