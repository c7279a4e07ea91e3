"""The reason why a backend cannot be reached, as operators read it, and as a client may read it.

Errors name socket paths, files, addresses and programs. A client may sit on another machine, behind a public listener:
it is told what went wrong, and the log says where.
"""

from __future__ import annotations

import re

TEXT_MAX = 1000  # characters: five lines of a child's last words; a pattern never sees more

HIDDEN = "…"

LOCAL = re.compile(
    r"""
      (?P<quote>['"`])(?:~|\.{0,2})/[^'"`]*(?P=quote)   # a path in quotes, which may hold spaces
    | \b[A-Za-z][\w+.@-]*:/[^\s'"`]*                   # a URL or an endpoint
    | (?<![\w.-])(?:~|\.{1,2})?/[^\s'"`,;:()\[\]{}<>]+  # a path
    | \b\d{1,3}(?:\.\d{1,3}){3}\b(?::\d+)?             # an address
    | \blocalhost\b(?::\d+)?
    | \[[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*\](?::\d+)?
    """,
    re.VERBOSE,
)


def public_reason(error: BaseException) -> str:
    """Return the text of an error without the paths and addresses in it; of an OSError also without its file."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return LOCAL.sub(HIDDEN, text[:TEXT_MAX]).removeprefix(f"{HIDDEN} ")


def full_reason(error: Exception) -> str:
    """Return the text of an error for the log and for operators: of an OSError with its file, without its number."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror


def exit_reason(transport: object) -> str:
    """Return the exit status and the last words of the child behind a transport; "" if no child is behind it."""
    reason: str = getattr(transport, "reason", "")
    return reason
