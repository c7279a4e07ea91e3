"""Check the several upstreams of a route: which ones can stand in for each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dragoman.gateway import registry
from dragoman.gateway.config.lines import KeyPath
from dragoman.gateway.endpoint import Endpoint


def failover_faults(upstreams: Mapping[KeyPath, Endpoint]) -> Iterator[tuple[KeyPath, str]]:
    """Yield the key of each upstream that cannot be one of several, and what to write instead."""
    if len(upstreams) < 2:
        return
    first, *_ = upstreams.values()
    seen: list[Endpoint] = []
    for key, endpoint in upstreams.items():
        text = ""
        if endpoint in seen:
            text = "is in the list twice"
        elif registry.played(endpoint):
            text = "a recording cannot be one of several upstreams; make it the only one"
        elif registry.pods(endpoint) is not None:
            text = "a directory cannot be one of several upstreams, it finds a live pod by itself; make it the only one"
        elif endpoint.dialect != first.dialect:
            text = f"all upstreams of a route speak one dialect, and the first speaks {first.dialect}"
        if text:
            yield key, f"{endpoint.masked}: {text}"
        seen.append(endpoint)
