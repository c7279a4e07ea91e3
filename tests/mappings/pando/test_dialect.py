"""The DIALECT record, and the record of a listener with an identity."""

from __future__ import annotations

from dragoman.mappings.canonical import Batch, events
from dragoman.mappings.dialect import Burst, Instance, Parts
from dragoman.mappings.pando import DIALECT
from tests.mappings.pando.data import value

SESSION = "0192f0e8-4d84-7d6e-a000-0000000000aa"
AT = 1_778_362_100 * 10**9
US = Instance(id="us", started_at=AT)


def test_a_listener_speaks_as_its_instance_on_both_sides() -> None:
    assert DIALECT.served is not None
    dialect = DIALECT.served(US)
    assert dialect.publication is not None
    (ending,) = dialect.publication(lambda: AT, lambda: "id").closed("").frames
    batch = Batch(session=SESSION, epoch=1, first_seq=0, events=[events.TextDelta(text="x")], at=AT)
    start, token = dialect.projection("", "").render(batch).frames
    assert [value(frame)[1]["instanceId"] for frame in (ending, start, token)] == ["us", "us", "us"]
    caller = dialect.server(lambda: AT, lambda: "own")
    caller.receive([Parts("rpc", b"me", (b"", b'{"id":"r","method":"instance.ping","params":{}}'))])
    (reply,) = caller.send([events.Pong(request="own")]).frames
    assert value(reply)["result"]["instance_id"] == "us"


def test_without_a_listener_messages_come_from_the_gateway() -> None:
    (frame,) = DIALECT.events.write(Burst(items=[events.TextDelta(text="x")], session="s")).frames
    assert value(frame)[1]["instanceId"] == "dragoman"


def test_a_primary_has_many_sessions_under_their_own_ids() -> None:
    assert (DIALECT.name, DIALECT.single_session, DIALECT.has_request_ids) == ("pando", False, False)
    assert DIALECT.public_ids(SESSION, None) == (SESSION,)
