"""A message with an unknown name: a value, not an exception."""

from __future__ import annotations

from dragoman.mappings.canonical.facts import Facts


class Unmapped(Facts, frozen=True, kw_only=True, gc=False, tag_field="type", tag="unmapped"):
    """A whole message with an unknown name.

    It is logged, recorded and counted. It goes out again only to its own dialect, and only if clients of that dialect
    survive it. `raw` is the frame as text. An event with the `request` of a command goes to the client that sent it.
    """

    visibility = "internal"
    answers = "by_request"

    dialect: str
    tag: str
    raw: str
    request: str = ""
    session: str = ""
