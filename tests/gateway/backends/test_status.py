"""The status of the connections to a backend, and gateways that end with their backend."""

from __future__ import annotations

from pathlib import Path

from dragoman.gateway.backends.status import BackendLosses, BackendStatus
from tests.pairs.gateway import SmoothClient
from tests.peers.processes import running

LOSS = "--exit-on-backend-loss"


def looked(*looks: tuple[float, BackendStatus]) -> list[str | None]:
    """Return what each look at a status finds, with a grace of 2 s."""
    losses = BackendLosses()
    return [losses.find_lost({"a": status}, now, lambda _route: 2.0) for now, status in looks]


THERE = BackendStatus(wanted=1, connected=1, heard=1)
GONE = BackendStatus(wanted=1, dropped=1)
SILENT = BackendStatus(wanted=1, connected=1, dropped=1)


def test_a_backend_is_lost_once_the_grace_is_over() -> None:
    assert looked((0, THERE), (1, GONE), (2.9, GONE), (3, GONE)) == [None, None, None, "a"]


def test_a_backend_that_returns_within_the_grace_is_not_lost() -> None:
    back = BackendStatus(wanted=1, connected=1, heard=1, dropped=1)
    assert looked((0, THERE), (1, GONE), (2, back), (9, back)) == [None] * 4


def test_a_backend_that_was_never_reached_is_not_lost() -> None:
    unreachable = BackendStatus(wanted=1, lost=7)
    assert looked((0, unreachable), (60, unreachable)) == [None, None]


def test_a_backend_with_another_connection_is_not_lost() -> None:
    one_left = BackendStatus(wanted=2, connected=1, heard=1, dropped=1)
    assert looked((0, one_left), (60, one_left)) == [None, None]


def test_a_backend_that_accepts_and_says_nothing_is_lost_only_when_it_drops_that_connection_too() -> None:
    assert looked((1, GONE), (5, SILENT), (6, GONE)) == [None, None, "a"]


def test_a_backend_that_was_found_reachable_is_looked_at_again_after_another_grace() -> None:
    losses = BackendLosses()
    assert [losses.find_lost({"a": GONE}, now, lambda _route: 2.0) for now in (0.0, 2.0)] == [None, "a"]
    losses.note_reachable("a", 2.0)
    assert [losses.find_lost({"a": GONE}, now, lambda _route: 2.0) for now in (3.9, 4.0)] == [None, "a"]


WS = "smooth+ws://127.0.0.1:0/ws"


async def test_a_bridge_ends_with_its_backend_and_tells_why(tmp_path: Path) -> None:
    agent = f"pod+unix:{tmp_path}/agent"
    async with running("demo-backend", agent) as backend, running("bridge", WS, agent, LOSS) as bridge:
        async with SmoothClient.connected(bridge.url) as client:
            await client.say("slow")
            await client.until(lambda: client.frames[-1]["type"] == "stream_token")
            await backend.kill()
            assert await bridge.ended() == 1
        await bridge.logs("error: the backend of route 'bridge' is lost (--exit-on-backend-loss): ")


async def test_a_gateway_without_clients_ends_once_all_its_upstreams_are_killed(tmp_path: Path) -> None:
    async with running("demo-backend", WS) as one, running("demo-backend", WS) as other:
        config = tmp_path / "config.toml"
        config.write_text(
            "[limits]\nreconnect_grace = 0.2\n"
            f'[[route]]\nname = "two"\nlisten = ["{WS}"]\nupstream = {[*one.endpoints, *other.endpoints]}\n'
        )
        async with running("serve", "--config", str(config), LOSS) as gateway:
            async with SmoothClient.connected(gateway.url) as client:
                await client.turn("hi")
            await gateway.logs("client disconnected")
            await one.kill()
            await other.kill()
            assert await gateway.ended() == 1
            await gateway.logs("error: the backend of route 'two' is lost (--exit-on-backend-loss): ")


def test_a_backend_fault_ends_with_the_next_frame_of_the_backend() -> None:
    status = BackendStatus()
    status.note_fault("refused", 5)
    assert (status.fault, status.fault_at, status.lost) == ("refused", 5, 1)
    status.note_heard()
    assert (status.fault, status.heard, status.lost) == ("", 1, 1)
