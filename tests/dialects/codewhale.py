"""Facts about codewhale, and the clients and backends that the tests play in it."""

from __future__ import annotations

from dragoman.gateway.endpoint import parse
from tests.chaos.clients import CodewhaleChaosClient
from tests.dialects.record import DialectParts
from tests.oracle.codewhale import CodewhaleOracle
from tests.pairs.random_clients import RandomCodewhaleClient
from tests.pairs.random_codewhale import RandomCodewhale
from tests.pairs.turn_clients import CodewhaleTurnClient
from tests.players.capture_readers import CodewhaleReader
from tests.players.captured.codewhale import CapturedCodewhale
from tests.players.clients import InMemoryCodewhaleClient

PARTS = DialectParts(
    upstream=parse("codewhale+unix:/codewhale?cwd=/src&model=whale-1"),
    token_reads=5,
    token_writes=5,
    cancel='{"jsonrpc":"2.0","id":"9","method":"thread/interrupt","params":{"thread_id":"%s"}}',
    input='{"jsonrpc":"2.0","id":1,"method":"thread/message","params":{"thread_id":"t1"}}',
    image='{"images":[{"mime":"image/png","dataBase64":"%s"}]}',
    busy="-32603",
    unknown_session="-32004",
    unrecorded_input="-32602",
    oracle=CodewhaleOracle,
    capture_reader=CodewhaleReader,
    capture_variants={},
    captured_backend=CapturedCodewhale,
    in_memory_client=InMemoryCodewhaleClient,
    turn_client=CodewhaleTurnClient.connected,
    chaos_client=CodewhaleChaosClient,
    random_client=RandomCodewhaleClient,
    random_backend=RandomCodewhale,
)
