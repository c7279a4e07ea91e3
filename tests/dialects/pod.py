"""Facts about pod, and the clients and backends that the tests play in it."""

from __future__ import annotations

from dragoman.gateway.endpoint import parse
from tests.chaos.clients import PodChaosClient
from tests.dialects.record import DialectParts
from tests.oracle.pod import PodOracle
from tests.pairs.random_clients import RandomPodClient
from tests.pairs.random_pod import RandomPod
from tests.pairs.turn_clients import PodTurnClient
from tests.players.capture_readers import PodReader
from tests.players.capture_variants import done_texts_alone, log_lane_first, log_lane_last
from tests.players.captured.pod import CapturedPod
from tests.players.clients import InMemoryPodClient

PARTS = DialectParts(
    upstream=parse("pod+unix:/pod"),
    token_reads=5,
    token_writes=4,
    cancel='{"method":"cancel"}',
    input='{"method":"run","params":{"input":[{"kind":"text","content":"hi"}]}}',
    image='{"attachments":[{"kind":"image","mime_type":"image/png","data":"%s"}]}',
    busy="already_running",
    unknown_session="invalid_request",
    unrecorded_input="invalid_request",
    oracle=PodOracle,
    capture_reader=PodReader,
    capture_variants={
        "done texts alone": done_texts_alone,
        "log lane first": log_lane_first,
        "log lane last": log_lane_last,
    },
    captured_backend=CapturedPod,
    in_memory_client=InMemoryPodClient,
    turn_client=PodTurnClient.connected,
    chaos_client=PodChaosClient,
    random_client=RandomPodClient,
    random_backend=RandomPod,
)
