"""Callers of a ZeroMQ listener: plain DEALER and REQ sockets that come, go, flood and send garbage."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence

import pytest
import zmq
from msgspec import structs

from dragoman.adapters.base import CloseReason
from dragoman.adapters.zeromq.callers import EXPIRED, Caller
from dragoman.adapters.zeromq.sockets import HARD_LIMIT
from dragoman.mappings.dialect import Frame, Loss, Oversize, Parts
from tests.adapters.zeromq.peers import BOUNDS, LIMITS, Primary, peer, primary, send_forever
from tests.awaited import until
from tests.transport_reader import receive

Socket = zmq.Socket[bytes]


def call(frame: Frame) -> bytes:
    """Return the frames of a call with this body, with the empty frame before it."""
    assert isinstance(frame, Parts)
    assert (frame.channel, frame.parts[0]) == ("rpc", b"")
    return frame.parts[-1]


async def heard(ours: Primary) -> tuple[Caller, Sequence[Frame]]:
    """Return the next caller that calls for the first time, and its message."""
    caller = await ours.accepted.get()
    return caller, await receive(caller)


async def first_call(ours: Primary, dealer: Socket, body: bytes) -> tuple[Caller, Sequence[Frame]]:
    """Call for the first time; return the caller, and its message."""
    dealer.send_multipart([b"", body])
    return await heard(ours)


async def reply(caller: Socket) -> list[bytes]:
    return await asyncio.to_thread(caller.recv_multipart)


async def echo(caller: Caller) -> None:
    """Answer each call with its own content until there are no more calls."""
    while frames := await receive(caller):
        await caller.send([call(frame) for frame in frames])


async def test_a_call_comes_with_its_identity_and_the_answer_goes_behind_an_empty_frame() -> None:
    async with primary() as ours:
        with peer(zmq.DEALER) as dealer:
            dealer.setsockopt(zmq.IDENTITY, b"pando-client-17")
            dealer.connect(ours.calls)
            caller, frames = await first_call(ours, dealer, b"ping")
            assert frames == [Parts("rpc", b"pando-client-17", (b"", b"ping"))]
            assert caller.peer == "pando-client-17"
            await caller.send([b"pong"])
            assert await reply(dealer) == [b"", b"pong"]


async def test_a_req_socket_works_as_a_client() -> None:
    async with primary() as ours:
        with peer(zmq.REQ, ours.calls) as requester:
            requester.send(b"ping")
            caller, (frame,) = await heard(ours)
            assert call(frame) == b"ping"
            await caller.send([b"pong"])
            assert await asyncio.to_thread(requester.recv) == b"pong"


@pytest.mark.parametrize("parts", [[b"body"], [b""], [b"", b"x", b"body"], [b"\xff" * 3] * 50, [b"", b""]])
async def test_any_parts_arrive_unchanged_and_their_answer_reaches_the_caller(
    parts: list[bytes],
) -> None:
    async with primary() as ours:
        with peer(zmq.DEALER, ours.calls) as dealer:
            dealer.send_multipart(parts)
            caller, frames = await heard(ours)
            assert frames == [Parts("rpc", caller.identity, tuple(parts))]
            await caller.send([b"parse error"])
            assert await reply(dealer) == [b"", b"parse error"]


async def test_callers_do_not_get_each_others_answers() -> None:
    async with primary() as ours:
        with peer(zmq.DEALER, ours.calls) as one, peer(zmq.DEALER, ours.calls) as two:
            for dealer, body in ((one, b"1"), (two, b"2")):
                dealer.send_multipart([b"", body])
            answers = {}
            for _ in range(2):
                caller, (frame,) = await heard(ours)
                answers[call(frame)] = caller
            await answers[b"2"].send([b"for two"])
            await answers[b"1"].send([b"for one"])
            assert (await reply(one))[-1] == b"for one"
            assert (await reply(two))[-1] == b"for two"


async def test_a_caller_has_one_link_for_all_its_calls() -> None:
    async with primary() as ours:
        with peer(zmq.DEALER, ours.calls) as dealer:
            caller, _ = await first_call(ours, dealer, b"first")
            for number in range(3):
                await caller.send([b"answer"])
                await reply(dealer)
                dealer.send_multipart([b"", b"%d" % number])
                (frame,) = await receive(caller)
                assert call(frame) == b"%d" % number
        assert len(ours.callers) == 1


async def test_callers_that_come_and_go_leave_no_state() -> None:
    async with primary(bounds=structs.replace(BOUNDS, callers=100)) as ours:
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(serve(ours, group))
            for _ in range(50):
                with peer(zmq.DEALER, ours.calls) as dealer:
                    dealer.send_multipart([b"", b"ping"])
                    assert await reply(dealer) == [b"", b"ping"]
            silent_for_long(ours, *ours.callers)
            await until(lambda: len(ours.listener._callers) == 0)
            serving.cancel()
        assert len(ours.callers) == 50
        assert ours.losses == []


def silent_for_long(ours: Primary, *callers: Caller) -> None:
    """Make these callers look as if they had sent nothing for `idle` seconds."""
    for caller in callers:
        caller.heard -= BOUNDS.idle
    ours.listener._callers._expire()


async def serve(ours: Primary, group: asyncio.TaskGroup) -> None:
    while True:
        group.create_task(echo(await ours.accepted.get()))


async def test_a_silent_caller_is_forgotten_and_counts_as_new_when_it_calls_again() -> None:
    async with primary(bounds=structs.replace(BOUNDS, idle=0.1)) as ours:
        with peer(zmq.DEALER, ours.calls) as dealer:
            first, _ = await first_call(ours, dealer, b"once")
            assert await receive(first) == []
            with pytest.raises(ConnectionError):
                await first.send([b"too late"])
            await first.close()
            ours.listener._callers._idle = BOUNDS.idle  # a busy machine may be slow to answer
            second, (frame,) = await first_call(ours, dealer, b"again")
            assert call(frame) == b"again"
            assert second is not first
            await second.send([b"welcome back"])
            assert (await reply(dealer))[-1] == b"welcome back"


async def test_a_silent_caller_is_forgotten_sooner_if_it_has_its_answers() -> None:
    async with primary() as ours:
        with peer(zmq.DEALER, ours.calls) as answered, peer(zmq.DEALER, ours.calls) as waiting:
            for dealer in (answered, waiting):
                dealer.send_multipart([b"", b"call"])
            one, other = [(await heard(ours))[0] for _ in range(2)]
            await one.send([b"answer"])
            for caller in (one, other):
                caller.heard -= BOUNDS.answered
            ours.listener._callers._expire()
            assert await receive(one) == []
            await other.send([b"answer"])


async def test_calls_of_a_caller_that_was_disconnected_for_a_limit_are_dropped_and_counted_for_a_while() -> None:
    async with primary() as ours:
        with peer(zmq.DEALER, ours.calls) as flooding, peer(zmq.DEALER, ours.calls) as other:
            caller, _ = await first_call(ours, flooding, b"first")
            await caller.close(CloseReason.FULL)
            flooding.send_multipart([b"", b"second"])
            await until(lambda: bool(ours.losses))
            assert ours.losses == [Loss(kind="call", why="the caller was disconnected for a limit")]
            _, (frame,) = await first_call(ours, other, b"another connection")
            assert call(frame) == b"another connection"
            ours.listener._callers._banned[caller.identity] -= BOUNDS.idle
            _, (frame,) = await first_call(ours, flooding, b"third")
            assert call(frame) == b"third"


async def test_the_number_of_banned_identities_is_at_most_that_of_callers() -> None:
    async with primary(bounds=structs.replace(BOUNDS, callers=1)) as ours:
        banned = []
        for _ in range(3):
            with peer(zmq.DEALER, ours.calls) as dealer:
                caller, _ = await first_call(ours, dealer, b"flood")
                await caller.close(CloseReason.FULL)
                banned.append(caller.identity)
        assert list(ours.listener._callers._banned) == banned[-1:]


async def test_a_caller_that_keeps_calling_is_not_forgotten() -> None:
    async with primary() as ours:
        with peer(zmq.DEALER, ours.calls) as busy, peer(zmq.DEALER, ours.calls) as silent:
            caller, _ = await first_call(ours, busy, b"busy")
            other, _ = await first_call(ours, silent, b"silent")
            caller.heard = other.heard = other.heard - BOUNDS.idle
            busy.send_multipart([b"", b"busy"])
            await receive(caller)
            ours.listener._callers._expire()
            assert await receive(other) == []
            await caller.send([b"answer"])
            assert (await reply(busy))[-1] == b"answer"


async def test_silent_callers_are_removed_a_few_at_a_time() -> None:
    async with primary() as ours:
        with contextlib.ExitStack() as stack:
            for _ in range(EXPIRED + 1):
                await first_call(ours, stack.enter_context(peer(zmq.DEALER, ours.calls)), b"once")
            silent_for_long(ours, *ours.callers)
            assert len(ours.listener._callers) == 1
            await until(lambda: len(ours.listener._callers) == 0)


async def test_the_caller_that_was_silent_longest_makes_room_for_a_new_one() -> None:
    async with primary(bounds=structs.replace(BOUNDS, callers=2)) as ours:
        with (
            peer(zmq.DEALER, ours.calls) as one,
            peer(zmq.DEALER, ours.calls) as two,
            peer(zmq.DEALER, ours.calls) as three,
        ):
            callers = []
            for dealer in (one, two):
                caller, _ = await first_call(ours, dealer, b"ping")
                await caller.send([b"pong"])
                callers.append(caller)
            three.send_multipart([b"", b"ping"])
            await heard(ours)
            assert await receive(callers[0]) == []
            assert len(ours.listener._callers) == 2
            two.send_multipart([b"", b"still here"])
            assert call((await receive(callers[1]))[0]) == b"still here"


async def test_a_caller_that_waits_for_an_answer_is_kept_and_a_new_one_is_refused_and_counted() -> None:
    async with primary(bounds=structs.replace(BOUNDS, callers=1)) as ours:
        with peer(zmq.DEALER, ours.calls) as waiting, peer(zmq.DEALER, ours.calls, RCVTIMEO=100) as late:
            caller, _ = await first_call(ours, waiting, b"slow")
            late.send_multipart([b"", b"late"])
            await until(lambda: bool(ours.losses))
            assert ours.losses == [Loss(kind="call", why="too many callers wait for answers (`callers`)")]
            await caller.send([b"done"])
            assert (await reply(waiting))[-1] == b"done"
            _, (frame,) = await first_call(ours, late, b"again")
            assert call(frame) == b"again"


async def test_sending_an_answer_to_a_gone_caller_raises_connection_error() -> None:
    async with primary() as ours:
        with peer(zmq.DEALER, ours.calls) as dealer:
            caller, _ = await first_call(ours, dealer, b"ping")
        with pytest.raises(ConnectionError, match="gone"):
            await send_forever(caller)


async def test_a_call_is_noticed_although_an_answer_to_a_gone_caller_consumed_its_signal() -> None:
    async with primary() as ours:
        with peer(zmq.DEALER, ours.calls) as dealer:
            gone, _ = await first_call(ours, dealer, b"ping")
        with pytest.raises(ConnectionError, match="gone"):
            await send_forever(gone)
        with peer(zmq.DEALER, ours.calls) as other:
            caller, _ = await first_call(ours, other, b"ping")
            other.send_multipart([b"", b"again"])
            end = time.monotonic() + 0.05
            while time.monotonic() < end:  # surely takes the signal; the event loop does not run meanwhile
                with pytest.raises(ConnectionError, match="gone"):
                    await gone.send([b"anybody?"])
            (frame,) = await receive(caller)
            assert call(frame) == b"again"


async def test_a_caller_that_does_not_read_its_answers_delays_only_itself() -> None:
    bounds = structs.replace(BOUNDS, answered=3600.0, idle=3600.0)  # it has one call, and 2,000 answers take a while
    async with primary(bounds=bounds) as ours:
        with peer(zmq.DEALER, ours.calls, RCVHWM=1, RCVBUF=4096) as deaf, peer(zmq.DEALER, ours.calls) as other:
            full, _ = await first_call(ours, deaf, b"ping")
            async with asyncio.TaskGroup() as group:
                stuck = group.create_task(full.send([b"x" * 10_000] * 2_000))
                caller, _ = await first_call(ours, other, b"ping")
                for _ in range(100):
                    await caller.send([b"pong"])
                    assert (await reply(other))[-1] == b"pong"
                    other.send_multipart([b"", b"ping"])
                    await receive(caller)
                assert not stuck.done()
                for _ in range(2_000):
                    assert len((await reply(deaf))[-1]) == 10_000
                await stuck


async def test_few_calls_of_a_connection_are_buffered_while_the_event_loop_is_busy() -> None:
    call_of_256_kib, most = b"x" * 256 * 1024, 200
    async with primary() as ours:
        with peer(zmq.DEALER, ours.calls, SNDHWM=1, SNDBUF=4096, SNDTIMEO=300) as dealer:
            sent = 0
            with contextlib.suppress(zmq.Again):
                while sent < most:  # the loop does not run meanwhile
                    dealer.send_multipart([b"", call_of_256_kib])
                    sent += 1
            assert sent < most // 2  # those of UNREAD, and what the system's own buffers hold
            caller, frames = await heard(ours)
            received = len(frames)
            while received < sent:
                received += len(await receive(caller))


async def test_closing_ends_a_send_that_waits() -> None:
    async with primary() as ours:
        with peer(zmq.DEALER, ours.calls, RCVHWM=1, RCVBUF=4096) as deaf:
            caller, _ = await first_call(ours, deaf, b"ping")
            async with asyncio.TaskGroup() as group:
                sending = group.create_task(refused(caller))
                await asyncio.sleep(0)
                await caller.close(CloseReason.TOO_SLOW)
                await sending


async def refused(caller: Caller) -> None:
    with pytest.raises(ConnectionError):
        await caller.send([b"x" * 10_000] * 5_000)


async def test_calls_that_no_link_reads_stay_in_the_socket_and_are_not_lost() -> None:
    limits = structs.replace(LIMITS, receive_high=10_000)
    calls = [b"%06d" % number + b" " * 1_000 for number in range(3_000)]
    async with primary(limits) as ours:
        with peer(zmq.DEALER, ours.calls) as dealer:
            sending = asyncio.to_thread(lambda: [dealer.send_multipart([b"", body]) for body in calls])
            async with asyncio.TaskGroup() as group:
                group.create_task(sending)
                caller = await ours.accepted.get()
                await until(lambda: not ours.listener._callers._polled._reading)
                assert ours.listener._callers._waiting < 10_000 + 256 * 2_000  # at most a batch beyond
                received: list[bytes] = []
                while len(received) < len(calls):
                    received += map(call, await receive(caller))
        assert received == calls


async def test_calls_of_other_callers_are_read_after_a_link_closed_with_unread_calls() -> None:
    async with primary(structs.replace(LIMITS, receive_high=100)) as ours:
        with peer(zmq.DEALER, ours.calls) as one, peer(zmq.DEALER, ours.calls) as two:
            one.send_multipart([b"", b"x" * 200])
            unread = await ours.accepted.get()
            two.send_multipart([b"", b"ping"])
            await unread.close()
            _, (frame,) = await heard(ours)
            assert call(frame) == b"ping"


async def test_a_call_over_the_limit_comes_as_oversize_and_the_next_one_unchanged() -> None:
    async with primary(structs.replace(LIMITS, max_message=1_000)) as ours:
        with peer(zmq.DEALER, ours.calls) as dealer:
            dealer.send_multipart([b"", b"x" * 1_001])
            caller, (frame,) = await heard(ours)
            assert isinstance(frame, Oversize)
            assert (frame.size > 1_000, frame.limit) == (True, 1_000)
            dealer.send_multipart([b"", b"ping"])
            assert call((await receive(caller))[0]) == b"ping"


@pytest.mark.parametrize("many", [65, 5_000])
async def test_a_call_of_too_many_parts_comes_as_oversize_and_the_next_one_unchanged(many: int) -> None:
    async with primary() as ours:
        with peer(zmq.DEALER, ours.calls) as dealer:
            dealer.send_multipart([b"x"] * many)
            caller, (frame,) = await heard(ours)
            assert frame == Oversize(size=65, limit=64, name="message_parts")
            dealer.send_multipart([b"x"] * 64)
            assert await receive(caller) == [Parts("rpc", caller.identity, (b"x",) * 64)]


async def test_a_call_far_over_the_limit_disconnects_only_that_caller() -> None:
    async with primary(structs.replace(LIMITS, max_message=1_000)) as ours:
        with peer(zmq.DEALER, ours.calls) as sender, peer(zmq.DEALER, ours.calls) as other:
            cut, _ = await first_call(ours, sender, b"ping")
            sender.send_multipart([b"", b"x" * (1_000 * HARD_LIMIT + 1)])
            with pytest.raises(ConnectionError):
                await send_forever(cut)
            caller, _ = await first_call(ours, other, b"ping")
            await caller.send([b"pong"])
            assert (await reply(other))[-1] == b"pong"


async def test_an_identity_of_arbitrary_bytes_is_shown_in_hex() -> None:
    async with primary() as ours:
        with peer(zmq.DEALER) as dealer:
            dealer.setsockopt(zmq.IDENTITY, b"\x1b[2J" + b"\xff" * 200)
            dealer.connect(ours.calls)
            dealer.send(b"ping")
            caller, _ = await heard(ours)
            assert caller.peer == "1b5b324a" + "ff" * 28


async def test_a_closed_listener_serves_known_callers_and_counts_the_calls_of_others() -> None:
    async with primary() as ours:
        with peer(zmq.DEALER, ours.calls) as known, peer(zmq.DEALER, ours.calls) as late:
            caller, _ = await first_call(ours, known, b"ping")
            await ours.listener.close()
            late.send_multipart([b"", b"ping"])
            await until(lambda: ours.losses == [Loss(kind="call", why="the gateway is stopping")])
            await caller.send([b"pong"])
            assert (await reply(known))[-1] == b"pong"
            known.send_multipart([b"", b"and now?"])
            assert call((await receive(caller))[0]) == b"and now?"
