"""The fair queue: the work of one step, the order in which links are served, and that no frame is lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.gateway.overload.fair_queue import (
    CLIENT_FRAMES,
    EVENT,
    FEW,
    FRAME,
    LEAVE,
    OPEN,
    PIECE,
    PUT,
    QUANTUM,
    STEP,
    TURN,
    FairQueue,
    SlicedWork,
    Turns,
)
from dragoman.mappings.dialect import Frame, Parts

Soon = deque[Callable[[], None]]


class Sender:
    """A link whose frames come from the test, each of which causes work that costs `causes`.

    `log` has every frame that it handled, with its name.
    """

    def __init__(self, name: str, queue: FairQueue, log: list[tuple[str, Frame]], causes: int = 0) -> None:
        self.name, self.queue, self.log, self.causes = name, queue, log, causes
        self.turns = Turns(queue, self.act)
        self.frames: deque[Frame] = deque()

    def say(self, *frames: Frame) -> None:
        """Send frames: handled at once while there is room, unless earlier frames wait."""
        waits = bool(self.frames)
        self.frames += frames
        if not waits:
            self.act()

    def act(self) -> None:
        for frame in self.turns.admit(list(self.frames)):
            self.frames.popleft()
            self.log.append((self.name, frame))
            self.queue.budget.left -= self.causes


class FairQueueHarness:
    """A queue, its senders by name, and the scheduled steps."""

    def __init__(self) -> None:
        self.soon: Soon = deque()
        self.queue = FairQueue(self.soon.append)
        self.log: list[tuple[str, Frame]] = []
        self.senders: dict[str, Sender] = {}

    def sender(self, name: str, causes: int = 0) -> Sender:
        return self.senders.setdefault(name, Sender(name, self.queue, self.log, causes))

    def client(self, name: str, causes: int = 0) -> Sender:
        """Return a sender whose frames are checked, as those of clients are."""
        made = self.sender(name, causes)
        made.turns = Turns(self.queue, made.act, lambda frame: frame)
        return made

    def backend(self, name: str = "backend", causes: int = 0) -> Sender:
        """Return a sender whose frames are events."""
        made = self.sender(name, causes)
        made.turns = Turns(self.queue, made.act, each=EVENT)
        return made

    def run(self) -> None:
        """Run steps until none is scheduled."""
        while self.soon:
            self.step()

    def step(self) -> list[tuple[str, Frame]]:
        """Run one step; return the frames that it handled."""
        before = len(self.log)
        self.soon.popleft()()
        return self.log[before:]


def work(acted: Sequence[tuple[str, Frame]]) -> int:
    return sum(FRAME + len(frame) for _, frame in acted if isinstance(frame, bytes))


def test_a_frame_is_processed_at_once_while_the_step_has_room() -> None:
    harness = FairQueueHarness()
    harness.sender("a").say(b"1", b"2")
    assert harness.log == [("a", b"1"), ("a", b"2")]
    assert not harness.soon


def test_one_frame_that_costs_more_than_a_step_is_processed() -> None:
    harness = FairQueueHarness()
    harness.sender("a").say(b"x" * (2 * STEP), b"next")
    assert harness.log == [("a", b"x" * (2 * STEP))]
    assert harness.step() == [("a", b"next")]


def test_admitted_frames_that_are_not_handled_are_not_counted() -> None:
    harness = FairQueueHarness()
    turns = Turns(harness.queue, lambda: None, each=EVENT)
    frames = [b"x" * 10] * (3 * PIECE)
    pieces = turns.pieces(turns.admit(frames))
    assert len(next(pieces)) == PIECE
    before = harness.queue.budget.left
    harness.queue.budget.left -= 2 * STEP
    assert list(pieces) == []
    assert harness.queue.budget.left == before - 2 * STEP + 2 * PIECE * (EVENT + 10)
    assert (turns.waiting, len(harness.soon)) == (2 * PIECE, 1)


def test_cheap_frames_of_a_backend_are_all_handled_although_they_fill_the_step() -> None:
    harness = FairQueueHarness()
    turns = Turns(harness.queue, lambda: None, each=EVENT)
    admitted = turns.admit([b"x" * 10] * STEP)
    assert harness.queue.budget.left <= 0
    assert sum(map(len, turns.pieces(admitted))) == len(admitted)


def test_after_costly_frames_of_a_backend_a_cheap_read_doubles_the_piece_at_most() -> None:
    turns = Turns(FairQueueHarness().queue, lambda: None, each=EVENT)
    pieces = []
    for units in (STEP, EVENT, STEP, EVENT, EVENT):
        turns.note_cost(FEW, FEW * units)
        pieces.append(turns.piece)
    assert pieces == [FEW, 2 * FEW, FEW, 2 * FEW, 4 * FEW]


def test_a_frame_among_a_hundred_floods_waits_for_one_step() -> None:
    harness = FairQueueHarness()
    for number in range(100):
        harness.sender(f"flood-{number}").say(*[b"{}"] * 2000)
    for _ in range(50):
        harness.step()
        harness.sender("innocent").say(b"ping")
        assert harness.step()[0] == ("innocent", b"ping"), "before every flood, in the step after it came"


def test_links_that_flood_get_equal_work() -> None:
    harness = FairQueueHarness()
    for number in range(10):
        harness.sender(f"flood-{number}").say(*[b"{}"] * 20_000)
    acted = [name for _ in range(100) for name, _ in harness.step()]
    shares = [acted.count(f"flood-{number}") for number in range(1, 10)]
    assert max(shares) - min(shares) <= QUANTUM // FRAME + 1


def test_an_idle_link_does_not_save_up_turns_in_the_fair_queue() -> None:
    harness = FairQueueHarness()
    late = harness.sender("late")
    for name in ("a", "b"):
        harness.sender(name).say(*[b"{}"] * 10_000)
    for _ in range(10):
        harness.step()
    late.say(*[b"{}"] * 10_000)
    acted = [name for name, _ in harness.step()]
    assert acted.count("late") <= 4 * QUANTUM // FRAME, "two turns more than the others at most"
    assert {"a", "b"} <= set(acted)


def test_a_link_that_was_given_a_costly_turn_takes_turns_with_one_that_comes_after_it() -> None:
    harness = FairQueueHarness()
    harness.queue.budget.left = 0
    harness.sender("costly").say(bytes(8 * STEP), *[b"{}"] * 10_000)
    harness.sender("other").say(*[b"{}"] * (10 * STEP // FRAME))
    while harness.senders["other"].frames:
        harness.step()
    harness.step()
    harness.sender("late").say(*[b"{}"] * 10_000)
    harness.step()
    assert {name for name, _ in harness.step()} == {"costly", "late"}


def test_frames_of_backends_come_before_commands_that_waited_longer() -> None:
    harness = FairQueueHarness()
    harness.queue.budget.left = 0
    harness.client("client").say(b"input")
    harness.backend().say(b"begin", b"token")
    assert harness.step() == [("backend", b"begin"), ("backend", b"token"), ("client", b"input")]


class Worker(Sender):
    """A link whose inputs, and whose begins of a turn, are costly."""

    def __init__(self, name: str, harness: FairQueueHarness, **turns: Any) -> None:
        super().__init__(name, harness.queue, harness.log)
        self.turns = Turns(harness.queue, self.act, **turns)

    def act(self) -> None:
        before = len(self.log)
        super().act()
        for _, frame in self.log[before:]:
            if frame != b"token":
                self.queue.spend(TURN)
            self.queue.budget.unassigned += TURN if frame == b"begin" else 0


def test_tokens_behind_the_start_of_a_turn_come_before_commands_that_waited_longer() -> None:
    harness = FairQueueHarness()
    backend = Worker("backend", harness, each=EVENT)
    harness.queue.budget.left = 0
    backend.say(b"begin")
    for number in range(2 * STEP // TURN):
        Worker(f"client-{number}", harness, check=lambda frame: frame).say(b"input")
    assert harness.step()[0] == ("backend", b"begin")
    backend.say(b"token")
    assert harness.step()[0] == ("backend", b"token")


def test_tokens_and_pings_come_before_the_inputs_of_many_clients_whose_last_command_was_cheap() -> None:
    harness = FairQueueHarness()
    harness.queue.budget.left = 0
    for number in range(1_000):
        waiting = Worker(f"client-{number}", harness, check=lambda frame: frame, expect=lambda _frame: QUANTUM)
        waiting.turns.usual = FRAME
        waiting.say(b"input")
    backend = Worker("backend", harness, each=EVENT)
    innocent = harness.client("innocent")
    innocent.turns.usual = FRAME
    for _ in range(1_000 // (STEP // TURN) - 2):
        backend.say(b"token", b"token")
        innocent.say(b"ping")
        assert [name for name, _ in harness.step()[:3]] == ["backend", "backend", "innocent"]


def test_the_begins_of_turns_of_several_iterations_do_not_make_a_frame_wait() -> None:
    harness = FairQueueHarness()
    for _ in range(2 * STEP // TURN):
        harness.queue.spend(TURN)
        assert harness.step() == []
    harness.sender("a").say(b"ping")
    assert harness.log == [("a", b"ping")]


def test_a_step_opens_four_turns_at_most_between_two_looks_at_the_sockets() -> None:
    harness = FairQueueHarness()
    harness.queue.budget.left = 0
    for number in range(10):
        Worker(f"client-{number}", harness, check=lambda frame: frame).say(b"input")
    assert [len(harness.step()) for _ in range(3)] == [4, 4, 2]


def test_a_link_that_waits_first_is_not_passed_by_all_that_come_later_with_less() -> None:
    harness = FairQueueHarness()
    harness.queue.budget.left = 0
    harness.sender("first").say(*[b"x"] * 4)
    handled: list[str] = []
    for step in range(3):
        for number in range(STEP // FRAME):  # as many as a step handles
            harness.sender(f"later-{step}-{number}").say(b"x")
        handled += [name for name, _ in harness.step()]
    assert "first" in handled


def test_a_backend_that_floods_does_not_come_before_a_client() -> None:
    harness = FairQueueHarness()
    harness.backend().say(*[b"x"] * (4 * STEP // EVENT))
    harness.step()
    harness.client("client").say(b"input")
    assert harness.step()[0] == ("client", b"input")


class CountedWork:
    """A piece of work that waits for its turn, and takes `units`, of which `unassigned` count for no link."""

    expected, has_read = FRAME, False

    def __init__(self, queue: FairQueue, units: int, unassigned: int = 0) -> None:
        self._budget, self._units, self._unassigned = queue.budget, units, unassigned
        self.given, self.waiting = 0, 1

    def take(self) -> None:
        self.waiting = 0
        self._budget.left -= self._units
        self._budget.unassigned += self._unassigned


def test_work_that_counts_for_no_link_is_not_taken_from_that_of_the_next() -> None:
    harness = FairQueueHarness()
    first, second = CountedWork(harness.queue, TURN, unassigned=TURN), CountedWork(harness.queue, FRAME)
    for work in (first, second):
        harness.queue.enqueue(work)
    harness.step()
    assert first.given == 0
    assert second.given >= FRAME


def test_work_that_a_frame_caused_counts_for_its_link() -> None:
    harness = FairQueueHarness()
    harness.sender("costly", causes=10 * PUT)
    for name in ("first", "costly", "cheap"):
        harness.sender(name).say(*[b"{}"] * 10_000)
    acted = [name for _ in range(50) for name, _ in harness.step()]
    assert 2 * acted.count("costly") < acted.count("cheap")


def test_a_client_that_opens_sessions_gets_no_more_frames_handled_than_the_step_has_room_for() -> None:
    harness = FairQueueHarness()
    harness.client("opener", causes=OPEN).say(*[b"{}"] * 100)
    assert len(harness.log) == CLIENT_FRAMES
    while harness.soon:
        assert len(harness.step()) <= CLIENT_FRAMES
    assert len(harness.log) == 100


def test_other_links_are_served_between_the_slices_in_which_a_large_frame_is_checked() -> None:
    harness, large = FairQueueHarness(), b"x" * 4 * STEP
    slices = iter((None, None, None, large))
    first, other = harness.sender("large"), harness.client("other")
    first.turns = Turns(harness.queue, first.act, lambda _frame: next(slices))
    first.say(large)
    assert harness.log == []
    for number in range(3):
        other.say(b"%d" % number)
        harness.step()
    assert harness.log == [("other", b"0"), ("other", b"1"), ("other", b"2"), ("large", large)]


def test_a_client_with_cheap_frames_uses_the_whole_step() -> None:
    harness = FairQueueHarness()
    harness.client("client").say(*[b"{}"] * 1000)
    assert len(harness.step()) > 100


def test_a_client_is_served_although_new_clients_with_costly_commands_come_without_end() -> None:
    harness = FairQueueHarness()
    harness.queue.budget.left = 0
    innocent = harness.client("innocent")
    innocent.turns.usual = FRAME + len(b"ping")
    for number in range(200):
        harness.client(f"costly-{number}", causes=20 * STEP).say(b"history")
        innocent.say(b"ping")
        assert harness.step()[0] == ("innocent", b"ping")


def test_work_that_is_short_takes_at_most_half_of_a_step_from_work_that_is_not() -> None:
    harness = FairQueueHarness()
    harness.queue.budget.left = 0
    harness.client("other").say(b"x" * QUANTUM)
    for number in range(300):
        cheap = harness.client(f"cheap-{number}")
        cheap.turns.usual = FRAME
        cheap.say(b"x" * FRAME)  # so that their work is exactly half of the step at some time
    served = [name for name, _ in harness.step()]
    assert served.index("other") == STEP // 2 // (2 * FRAME)


def test_small_events_of_a_backend_that_each_cost_a_step_do_not_keep_a_client_waiting() -> None:
    harness = FairQueueHarness()
    backend = harness.backend(causes=STEP)
    backend.say(b"event")
    harness.client("client").say(b"input")
    for _ in range(3):
        backend.say(b"event")
        harness.step()
    assert ("client", b"input") in harness.log


def test_a_crowd_goes_on_after_a_piece_that_fails() -> None:
    def fail() -> None:
        raise LookupError

    harness, done = FairQueueHarness(), list[int]()
    harness.queue.budget.left = 0
    harness.queue.arrivals.add_piece(fail)
    harness.queue.arrivals.add_piece(partial(done.append, 1))
    with pytest.raises(LookupError):
        harness.step()
    harness.step()
    assert done == [1]


def test_a_queue_that_is_closed_to_clients_handles_no_flood_and_schedules_no_further_step() -> None:
    harness = FairQueueHarness()
    harness.client("flood").say(*[b"{}"] * 10_000)
    harness.queue.close_to_clients()
    handled = len(harness.log)
    harness.step()
    harness.client("late").say(b"{}", b"{}")
    assert (len(harness.log), len(harness.soon)) == (handled, 0)


def test_a_queue_that_is_closed_to_clients_serves_backends() -> None:
    harness = FairQueueHarness()
    harness.client("flood").say(*[b"{}"] * 10_000)
    harness.queue.close_to_clients()
    harness.sender("backend").say(*[b"{}"] * 10)
    handled = [name for _ in range(2) if harness.soon for name, _ in harness.step()]
    assert handled == ["backend"] * 10


def test_a_client_that_is_disconnected_is_shown_what_waits_in_a_closed_queue() -> None:
    harness = FairQueueHarness()
    shown: list[str] = []
    late = Turns(harness.queue, lambda: shown.append("late"), lambda frame: frame)
    harness.queue.close_to_clients()
    assert late.admit([b"{}"]) == ()
    late.stop()
    assert shown == ["late"], "its transport drops the frames"


def test_the_work_of_a_zeromq_message_includes_its_parts() -> None:
    harness = FairQueueHarness()
    message = Parts("rpc", b"me", (b"x" * STEP,))
    harness.sender("a").say(message, message)
    assert harness.log == [("a", message)]


def test_a_read_of_blank_lines_alone_counts_as_a_turn() -> None:
    queue = FairQueue()
    assert queue.admit(()) == ()
    assert queue.budget.left == STEP - QUANTUM


def test_a_step_is_scheduled_only_while_somebody_waits() -> None:
    harness = FairQueueHarness()
    sender = harness.sender("a")
    sender.say(*[b"{}"] * 1000)
    while harness.soon:
        assert len(harness.soon) == 1
        harness.step()
    assert not sender.frames
    sender.say(b"more")
    assert harness.log[-1] == ("a", b"more")


FRAMES = st.one_of(st.integers(0, 50), st.integers(0, 2 * STEP)).map(bytes)
# The frames that wait are copied for each turn, so many more of them would take minutes.
SAYINGS = st.lists(st.tuples(st.integers(0, 4), st.lists(FRAMES, max_size=6), st.integers(1, 40)), max_size=12)


@given(SAYINGS)
def test_each_frame_is_processed_once_and_in_order(sayings: list[tuple[int, list[bytes], int]]) -> None:
    harness = FairQueueHarness()
    said: dict[str, list[bytes]] = {}
    for who, frames, times in sayings:
        name, many = f"link-{who}", frames * times
        said.setdefault(name, []).extend(many)
        if many:
            harness.sender(name).say(*many)
        if times % 2 and harness.soon:
            largest = max((len(frame) for frames in said.values() for frame in frames), default=0)
            assert work(harness.step()) <= STEP + FRAME + largest
    harness.run()
    for name, frames in said.items():
        assert [frame for who, frame in harness.log if who == name] == frames


# -- work in slices --------------------------------------------------------------------------------------


def sliced(harness: FairQueueHarness, done: list[str], name: str, slices: int) -> Iterator[None]:
    """Work a quarter of a step in each slice."""
    for number in range(slices):
        done.append(f"{name}{number}")
        harness.queue.budget.left -= STEP // 4
        yield


def unexpected(error: Exception) -> None:
    raise AssertionError from error


def test_sliced_work_is_done_at_once_while_the_step_has_room() -> None:
    harness, done = FairQueueHarness(), list[str]()
    SlicedWork(harness.queue, unexpected).add_work(sliced(harness, done, "a", 3))
    assert done == ["a0", "a1", "a2"]
    assert not harness.soon


def test_counted_work_leaves_less_room_in_the_step_and_expected_work_goes_later() -> None:
    harness, done = FairQueueHarness(), list[str]()

    def big(name: str, work: SlicedWork) -> Iterator[None]:
        done.append(name)
        work.count(STEP)
        yield from ()

    works = {name: SlicedWork(harness.queue, unexpected, expected) for name, expected in (("a", STEP), ("b", FRAME))}
    for name in "aab":
        works[name].add_work(big(name, works[name]))
    assert done == ["a"]
    harness.step()
    assert done == ["a", "b"], "less work is expected of it"
    harness.step()
    assert done == ["a", "b", "a"]


def test_sliced_work_beyond_the_step_waits_and_links_with_work_take_turns() -> None:
    harness, done = FairQueueHarness(), list[str]()
    SlicedWork(harness.queue, unexpected).add_work(sliced(harness, done, "a", 8))
    SlicedWork(harness.queue, unexpected).add_work(sliced(harness, done, "b", 8))
    assert done == ["a0", "a1", "a2", "a3"]
    harness.step()
    assert len(done) == 8
    assert {name[0] for name in done[4:]} == {"a", "b"}
    harness.run()
    assert [name for name in done if name[0] == "b"] == [f"b{number}" for number in range(8)]
    assert len(done) == 16


def test_a_frame_does_not_wait_for_all_work_of_another_link() -> None:
    harness, done = FairQueueHarness(), list[str]()
    SlicedWork(harness.queue, unexpected).add_work(sliced(harness, done, "a", 100))
    harness.sender("ping").say(b"1")
    harness.step()
    assert harness.log == [("ping", b"1")]


def test_work_that_waits_is_dropped_with_its_link() -> None:
    harness, done = FairQueueHarness(), list[str]()
    work = SlicedWork(harness.queue, unexpected)
    work.add_work(sliced(harness, done, "a", 100))
    before = len(done)
    work.stop()
    harness.run()
    assert len(done) == before


def test_work_that_ends_its_own_link_is_no_failure() -> None:
    harness, done = FairQueueHarness(), list[str]()
    work = SlicedWork(harness.queue, unexpected)

    def ends_its_link() -> Iterator[None]:
        work.stop()  # as a read that makes the link exceed the memory of the gateway
        work.add_work(sliced(harness, done, "later", 1))
        yield from ()

    work.add_work(ends_its_link())
    assert done == ["later0"]


def test_a_failure_of_sliced_work_is_reported_and_ends_the_work_of_its_link_alone() -> None:
    def fails() -> Iterator[None]:
        yield
        raise ValueError

    harness, done, failures = FairQueueHarness(), list[str](), list[Exception]()
    SlicedWork(harness.queue, failures.append).add_work(fails())
    SlicedWork(harness.queue, unexpected).add_work(sliced(harness, done, "b", 1))
    assert [type(error) for error in failures] == [ValueError]
    assert done == ["b0"]


def test_a_small_frame_does_not_wait_for_a_large_frame_of_each_other_link() -> None:
    harness = FairQueueHarness()
    for number in range(20):
        harness.sender(f"large {number}").say(bytes(STEP - FRAME))
    harness.sender("small").say(b"ping")
    assert ("small", b"ping") in harness.step()


# -- links that end at once ----------------------------------------------------------------------------


def test_the_ends_of_many_links_are_spread_over_several_steps_and_keep_their_order() -> None:
    harness, ended = FairQueueHarness(), list[int]()
    for number in range(500):
        harness.queue.departures.add_piece(partial(ended.append, number))
    at_once = [len(ended)]
    while harness.soon:
        harness.step()
        at_once.append(len(ended) - sum(at_once))
    assert ended == list(range(500))
    assert max(at_once) == STEP // LEAVE


def test_a_frame_does_not_wait_for_the_ends_of_all_other_links() -> None:
    harness, ended = FairQueueHarness(), list[int]()
    for number in range(10 * STEP // LEAVE):
        harness.queue.departures.add_piece(partial(ended.append, number))
    harness.sender("ping").say(b"1")
    assert harness.step() == [("ping", b"1")]


def test_links_end_although_the_queue_is_closed_to_clients() -> None:
    harness, ended = FairQueueHarness(), list[int]()
    harness.queue.close_to_clients()
    for number in range(500):
        harness.queue.departures.add_piece(partial(ended.append, number))
    harness.run()
    assert ended == list(range(500))
