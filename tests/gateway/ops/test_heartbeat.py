"""The heartbeat of an event loop, seen by a clock of the test."""

from __future__ import annotations

from dragoman.gateway.ops.heartbeat import BEAT, LoopHeartbeat


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_a_loop_is_not_stuck_before_its_next_beat_is_due() -> None:
    clock = Clock()
    heartbeat = LoopHeartbeat(clock)
    heartbeat.start()
    clock.now += BEAT
    assert heartbeat.stuck_for == 0
    clock.now += 3
    assert heartbeat.stuck_for == 3
    heartbeat.beat()
    assert heartbeat.stuck_for == 0
    heartbeat.stop()


async def test_the_lags_of_beats_are_counted_in_cumulative_buckets() -> None:
    clock = Clock()
    heartbeat = LoopHeartbeat(clock)
    heartbeat.start()
    for lag in (0.0, 0.003, 7.0):
        clock.now += BEAT + lag
        heartbeat.beat()
    heartbeat.stop()
    counted = dict(zip((*heartbeat.lag.bounds, "all"), heartbeat.lag.count_up_to(), strict=True))
    assert (counted[0.001], counted[0.005], counted[5.0], counted["all"]) == (1, 2, 2, 3)
    assert round(heartbeat.lag.total, 6) == 7.003
