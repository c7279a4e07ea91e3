"""The in-memory gateway itself: a script that was never run or that left a frame out fails."""

from __future__ import annotations

import json

import pytest

from tests.gateway.in_memory import in_memory_gateway
from tests.gateway.pod_messages import delta, took
from tests.gateway.smooth_client_messages import accepted, opened, send, token

FORGOTTEN = pytest.RaisesExc(AssertionError, match="never held")


async def test_a_script_that_is_never_finished_fails() -> None:
    with pytest.RaisesGroup(FORGOTTEN):
        async with in_memory_gateway() as made:
            _ = made.opens("a")


async def test_a_frame_that_no_step_expects_fails() -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(AssertionError, match="said and not expected")):
        async with in_memory_gateway() as made:
            await made.opens("a").pod_sends(delta("surprise"))


async def test_a_missing_frame_fails_and_its_step_is_named() -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(AssertionError, match="step 5, a receives")):
        async with in_memory_gateway() as made:
            await made.opens("a").receives("a", opened("never"))


async def test_a_name_is_the_same_text_each_time() -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(AssertionError, match=r"\$turn")):
        async with in_memory_gateway() as made:
            await (
                made.opens("a")
                .sends("a", send("r1", "Hi"))
                .pod_sends(delta("x"), *took("Hi"), delta("y"))
                .receives("a", token("$turn", "x"), accepted("r1"), token("$turn", "y"))
            )


async def test_a_peer_answers_with_the_ids_that_it_received() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        names = await made.asks_server("p", "Hi")
        assert names["$open"] != names["$t"]


async def test_a_client_that_stops_reading_gets_the_rest_when_it_reads_on() -> None:
    async with in_memory_gateway() as made:
        await (
            made.opens("a")
            .stops_reading("a")
            .sends("a", {"action": "ping", "requestId": "1"})
            .receives("a", {"type": "pong", "requestId": "1"})
            .sends("a", {"action": "ping", "requestId": "2"})
            .receives("a")
            .reads_on("a")
            .receives("a", {"type": "pong", "requestId": "2"})
        )


async def test_a_frame_that_is_not_strict_fails() -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(AssertionError, match="undocumented")):
        async with in_memory_gateway() as made:
            await made.connects("a")
            made.clients["a"].transport.got.append(b'{"type":"keepalive","data":{"requestId":"r"},"extra":1}')


async def test_frames_in_an_illegal_order_fail() -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(AssertionError, match="a 202 answers a send_message")):
        async with in_memory_gateway() as made:
            await made.connects("a")
            second = accepted("r1") | {"message": "", "data": {}, "timestamp": 1}
            made.clients["a"].transport.got.append(json.dumps(second).encode())
