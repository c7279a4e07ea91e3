"""The heartbeat of an event loop, seen by a clock of the test."""

from __future__ import annotations

from dragoman.gateway.ops.heartbeat import BEAT, LOOK, LoopHeartbeat


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def look_for(heartbeat: LoopHeartbeat, clock: Clock, seconds: float) -> float:
    """Look each LOOK seconds for so long, and return the last answer."""
    late = heartbeat.look()
    for _ in range(int(seconds / LOOK)):
        clock.now += LOOK
        late = heartbeat.look()
    return late


async def test_a_loop_is_not_stuck_before_its_next_beat_is_due() -> None:
    clock = Clock()
    heartbeat = LoopHeartbeat(clock)
    heartbeat.start()
    clock.now += BEAT
    assert heartbeat.look() == 0
    assert look_for(heartbeat, clock, 3) == 3
    heartbeat.beat()
    assert heartbeat.look() == 0
    heartbeat.stop()


async def test_a_process_that_was_stopped_is_not_stuck() -> None:
    clock = Clock()
    heartbeat = LoopHeartbeat(clock, cpu=Clock())
    heartbeat.start()
    look_for(heartbeat, clock, LOOK)
    clock.now += 3600
    assert heartbeat.look() == 0
    assert look_for(heartbeat, clock, 3) == 3, "a loop that does not turn afterwards is stuck"
    heartbeat.stop()


async def test_a_step_that_holds_the_interpreter_is_stuck_although_nobody_could_look() -> None:
    clock = Clock()
    heartbeat = LoopHeartbeat(clock, cpu=clock)
    heartbeat.start()
    clock.now += BEAT
    heartbeat.look()
    clock.now += 10
    assert heartbeat.look() == 10
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
