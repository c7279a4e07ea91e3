"""How a child process is started and ended, as its route says (docs/design.md, section 6)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class ChildSettings(Struct, frozen=True, kw_only=True):
    """The environment and the bounds of a child process.

    `env`: its whole environment. `withheld`: names of the gateway's variables that it does not get, for the log.
    `rlimits`: number of a resource (RLIMIT_NOFILE and so on) -> its soft and hard limit. `reap_all`: also end the
    processes that the child has put into sessions of their own.
    """

    env: Mapping[str, str]
    withheld: tuple[str, ...] = ()
    rlimits: Mapping[int, tuple[int, int]] = {}
    reap_all: bool = False
