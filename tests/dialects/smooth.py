"""Facts about smooth, and the clients and backends that the tests play in it."""

from __future__ import annotations

from dragoman.gateway.endpoint import parse
from tests.chaos.clients import SmoothChaosClient
from tests.dialects.record import DialectParts
from tests.oracle.smooth import SmoothOracle
from tests.pairs.random_clients import RandomSmoothClient
from tests.pairs.random_smooth_server import RandomSmoothServer
from tests.pairs.turn_clients import SmoothTurnClient
from tests.players.capture_readers import SmoothReader
from tests.players.capture_variants import terminal_alone
from tests.players.captured.smooth import CapturedSmoothServer
from tests.players.clients import InMemorySmoothClient

PARTS = DialectParts(
    upstream=parse("smooth+ws://127.0.0.1:2/ws"),
    token_reads=5,
    token_writes=4,
    cancel='{"action":"cancel","requestId":"9","sessionId":"%s"}',
    input='{"action":"send_message","sessionId":"s1","message":"hi"}',
    image='{"attachments":[{"type":"image","url":"data:image/png;base64,%s"}]}',
    busy="TURN_IN_PROGRESS",
    unknown_session="SESSION_NOT_FOUND",
    unrecorded_input="VALIDATION_ERROR",
    oracle=SmoothOracle,
    capture_reader=SmoothReader,
    capture_variants={"terminal alone": terminal_alone},
    captured_backend=CapturedSmoothServer,
    in_memory_client=InMemorySmoothClient,
    turn_client=SmoothTurnClient.connected,
    chaos_client=SmoothChaosClient,
    random_client=RandomSmoothClient,
    random_backend=RandomSmoothServer,
)
