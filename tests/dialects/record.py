"""The record that the tests have of one dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager

from msgspec import Struct

from dragoman.gateway.endpoint import Endpoint
from tests.chaos.clients import ChaosClient
from tests.oracle.base import Oracle
from tests.pairs.random_backend import RandomBackend
from tests.pairs.random_clients import RandomClient
from tests.pairs.turn_clients import TurnClient
from tests.players.capture_readers import Reader
from tests.players.capture_variants import Variant
from tests.players.captured.backend import CapturedBackend
from tests.players.clients import InMemoryClient


class DialectParts(Struct, frozen=True, kw_only=True):
    """Facts about a dialect, and the clients and backends that the tests play in it."""

    upstream: Endpoint
    """A backend in memory, with each option that the dialect has for new sessions."""
    token_reads: int
    """The calls from the read of a backend's token to the session."""
    token_writes: int
    """The calls from the session to the write of a client's token."""

    cancel: str
    """A command that stops the turn of the session `%s`; its request, if it has an id, is "9"."""
    input: str
    """A command with an input."""
    image: str
    """A part of a frame that holds the image `%s`."""

    busy: str
    """The code of the refusal of a second input while a turn runs."""
    unknown_session: str
    """The code of the refusal of an input to an unknown session."""
    unrecorded_input: str
    """The code of the refusal of an input that a replay does not have."""

    oracle: Callable[[], Oracle]
    capture_reader: type[Reader]
    capture_variants: Mapping[str, Variant]
    """The extreme but legal forms in which a captured backend may send its frames."""
    captured_backend: type[CapturedBackend]
    in_memory_client: type[InMemoryClient]
    turn_client: Callable[[str], AbstractAsyncContextManager[TurnClient]]
    """Connects a client to an address without its dialect."""
    chaos_client: type[ChaosClient]
    random_client: type[RandomClient]
    random_backend: Callable[[], RandomBackend]
