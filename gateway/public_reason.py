"""The reason why a backend cannot be reached: a text for operators, and one for clients.

Errors name socket paths, files, addresses and programs. A client may sit on another machine, behind a public listener:
it is told what went wrong, and the log says where. The last lines of a child's stderr may contain a secret, which
neither text has.
"""

from __future__ import annotations

import re

TEXT_MAX = 1000  # characters: five lines of a child's stderr; the patterns search no more

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
    return LOCAL.sub(HIDDEN, without_secrets(text, TEXT_MAX)).removeprefix(f"{HIDDEN} ")


def full_reason(error: Exception) -> str:
    """Return the text of an error for the log and for operators: of an OSError with its file, without its number."""
    if not isinstance(error, OSError) or not error.strerror:
        return without_secrets(str(error))
    text = without_secrets(error.strerror)
    return f"{error.filename}: {text}" if error.filename is not None else text


def exit_reason(transport: object) -> str:
    """Return why the peer of a transport ended: exit status and last lines of a child, or close code of a WebSocket."""
    return without_secrets(getattr(transport, "reason", ""))


def without_secrets(text: str, most: int | None = None) -> str:
    """Return a text, or its first `most` characters, without secrets, including one that the cut divides."""
    if not text:
        return ""
    from dragoman.gateway.recording.redaction.rules import redact_text  # 0.3 s that a start without an error saves

    return redact_text(text[:most], cut=most is not None and len(text) > most)
