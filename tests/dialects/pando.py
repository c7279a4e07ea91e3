"""Facts about pando, and the clients and backends that the tests play in it."""

from __future__ import annotations

from dragoman.gateway.endpoint import parse
from tests.chaos.clients import PandoChaosClient
from tests.dialects.record import DialectParts
from tests.oracle.pando import PandoOracle
from tests.pairs.random_clients import RandomPandoClient
from tests.pairs.random_pando import RandomPando
from tests.pairs.turn_clients import PandoTurnClient
from tests.players.capture_readers import PandoReader
from tests.players.capture_variants import last_tokens_lost
from tests.players.captured.pando import CapturedPando
from tests.players.clients import InMemoryPandoClient

PARTS = DialectParts(
    upstream=parse("pando+tcp://127.0.0.1:1"),
    # A token is a ZeroMQ message. It has a time, which is read, and a session, which is looked up. Its turn ends in
    # silence, so the time and the text of each token are kept. A call of either side happens once a second only.
    token_reads=17,
    token_writes=8,
    cancel='{"jsonrpc":"2.0","id":"9","method":"session.interrupt","params":{"session_id":"%s"}}',
    input='{"jsonrpc":"2.0","id":"req-1","method":"message.send","params":{"session_id":"s1"}}',
    image='{"type":"image","source":{"type":"base64","data":"%s"}}',
    busy="-32000",
    unknown_session="-32000",
    unrecorded_input="-32000",
    oracle=PandoOracle,
    capture_reader=PandoReader,
    capture_variants={"last tokens lost": last_tokens_lost},
    captured_backend=CapturedPando,
    in_memory_client=InMemoryPandoClient,
    turn_client=PandoTurnClient.connected,
    chaos_client=PandoChaosClient,
    random_client=RandomPandoClient,
    random_backend=RandomPando,
)
