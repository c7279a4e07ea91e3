"""The queries of the ops port: the parameters of each list, as types that check a request and describe it."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from dragoman.mappings.canonical.values import Status

Q = TypeVar("Q", bound=Struct)

LIMIT_MAX = 1000  # rows of one page: 75 ms of the gateway's loop, in slices; 15 ms of it to redact the titles


class PageQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of a list. `cursor` is the `next_cursor` of the page before."""

    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX)] = 100


class SessionQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of sessions that match; "" matches all.

    `dialect` is that of the backend. A `-` before the key sorts in descending order.
    """

    route: str = ""
    state: Literal["", Status] = ""
    dialect: str = ""
    owner: str = ""
    sort: Literal[
        "id", "-id", "opened_at", "-opened_at", "updated_at", "-updated_at", "memory", "-memory", "clients", "-clients"
    ] = "id"


class LossQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of the loss ledger; "" matches all.

    A `-` before the key sorts descending. The cursor counts rows, so a row may be missing on a page, or be on two. Rows
    that grow between two requests change their position if they are sorted by count, and a new row moves those after
    it. To get each row once, sort by `kind`, or ask for all rows at once with `limit`.
    """

    session: str = ""
    source: str = ""
    target: str = ""
    kind: str = ""
    sort: Literal["-count", "count", "kind", "session"] = "-count"


class ReadinessQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of /readyz: with `verbose` it shows all checks, and not only those that fail."""

    verbose: str | None = None


def parse_query(request: web.Request, wanted: type[Q]) -> Q:
    """Return the query of a request; raise HTTPBadRequest with the reason if it is not of this type."""
    query = request.query
    twice = next((name for name in query if len(query.getall(name)) > 1), "")
    if twice:
        raise web.HTTPBadRequest(text=f"parameter {twice!r} appears twice")
    given = dict(query)
    for name, hint in get_type_hints(wanted).items():
        if get_origin(hint) is Literal and name in given and given[name] not in get_args(hint):
            known = ", ".join(filter(None, get_args(hint)))
            raise web.HTTPBadRequest(text=f"{name} {given[name]!r} is not one of {known}")
    try:
        return msgspec.convert(given, wanted, strict=False)
    except msgspec.ValidationError as error:
        known = ", ".join(wanted.__struct_fields__)
        raise web.HTTPBadRequest(text=f"{error}; the parameters are {known}") from None
