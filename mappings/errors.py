"""The two types of errors in dragoman: of the user, and of a peer.

    DragomanError
    +-- ConfigError         the user's endpoint, option or file is wrong
    +-- PeerError           a peer broke its dialect; says whether its stream survives

Every parser of the project raises PeerError and nothing else. The error codes of each dialect are in its vocabulary.py.
"""

from __future__ import annotations

from typing import Literal

ERROR_TEXT_MAX = 500  # characters of an error's text for a peer: it may quote what the peer said

PeerErrorCode = Literal[
    "not_utf8",
    "not_json",
    "too_deep",
    "too_large",
    "invalid",
    "duplicate_key",
    "too_slow",
    "flooding",
    "too_many_messages",
    "too_many_faults",
    "out_of_memory",
]
"""The codes of the errors of peers; docs/operations.md, section 3, says what each means."""


class DragomanError(Exception):
    """Base class of every error that dragoman raises on purpose.

    `in_result` is True if the command that raises it has printed a result with this error for scripts.
    """

    in_result = False


class ConfigError(DragomanError):
    """An endpoint, option or configuration file is wrong; the text says how to correct it."""


class PeerError(DragomanError):
    """A peer sent something that its dialect does not allow.

    `code` is one of a fixed set and may label a counter. If `can_continue` is True, only this frame is lost; if False,
    the link ends. `value` is the untyped JSON of the frame, if any, so that an answer can name the refused request.
    """

    def __init__(self, code: PeerErrorCode, text: str, *, can_continue: bool = True, value: object = None) -> None:
        super().__init__(text)
        self.code: PeerErrorCode = code
        self.text = text
        self.can_continue = can_continue
        self.value = value


def first_error(error: BaseException) -> BaseException:
    """Return the error that ended a TaskGroup: the first one that is not a group itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
