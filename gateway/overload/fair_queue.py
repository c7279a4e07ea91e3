"""Share the event loop fairly between links, in counts of work (docs/design.md, section 6).

The loop serves sockets, timers and signals between its steps. So one step does only as much work as fits in `STEP`
units; a unit is about the time that a byte of JSON takes. A link acts on its frames at once while the step has units
left. After that it waits here, and its transport does not read. Each following step serves the waiting links in turn,
at most `QUANTUM` units each, the first half of it those for which only little waits.

`VirtualTime` says which of the waiting links is next.

The cost of a command is known only once it is handled. So at most `CLIENT_FRAMES` frames of a client are admitted at
once, and handled one by one, each only if the step has units left. A waiting command counts as what the last ones of
its client took, at most a quantum; a first command and an input count as a quantum. So a ping does not wait for costly
commands of other clients, even if 1,000 clients send their inputs at once.

Tokens pass inputs. A lone further piece of a text that streams waits only if 3,000 came in this step: waiting costs
three times its own work. Another lone frame of a backend may use up to one step more than the step has. The start of a
turn and its end count for the step, but not for the backend: the tokens after a start do not wait for the commands of
all clients.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

from dragoman.adapters.flag import Flag
from dragoman.adapters.inbound import memory
from dragoman.mappings.dialect import Frame

# docs/performance.md, "The work of one step", has the measurement behind these numbers.
STEP = 512 * 1024  # units of one step of the event loop: 2 to 5 ms
QUANTUM = STEP // 8  # units of one turn while others wait
FRAME = 2048  # units of a frame beside its bytes: 5 to 20 us, for a ping or a fault; a dialect may have a multiple
EVENT = 256  # units of a frame of a backend beside its bytes: about 1.5 us, as most of them come in bulk
QUICK = 5 * FRAME  # units of a turn that is short: a ping of any dialect, a few frames of a backend
TURN = STEP // 4  # units of a command to a backend, of the start of a turn and of its end: 4 (1 ms) fill a step
REFUSED = 4 * FRAME  # units of an answer to a question that is refused: it is a line of the audit log, too
OPEN = STEP // 4  # units of a new session, or of an unopened one that its backend names
DIAL = STEP // 4  # units of a connection to a backend: 1 to 2 ms, most of it outside of this step
READ = QUANTUM  # units of what one read of a client brought: it is parsed in pieces of a quantum
PIECE = 256  # frames of a backend that are handled at once: 0.4 ms of tokens; as many refused ones fill a step
STREAMED = 2  # pieces of a text that one read brings and that stream: each is a write to each client
FEW = 8  # frames of a backend that are handled at once in any case: turns begin and end with as many
CLIENT_FRAMES = 8  # frames of a client that are admitted at once
DELIVER = 1024  # units of one event of a session that is not text: 10 to 20 us to log, to render and to write it
ENTER = STEP // 32  # units of a client that is shown a session, beside the bytes of its history: 100 to 200 us
LEAVE = STEP // 64  # units of the end of a link: 50 to 100 us, most of it outside of this step
PUT = 512  # units of one write to a link beside its bytes: about 5 us, mostly for the system call


class StepBudget:
    """The work (units) that the current step may still do; each piece of work is subtracted.

    `left` is below 0 after work that cost more than was left. The current turn is over when it is not above `turn_end`.
    `unassigned` is the work of the current turn that counts for the step, but for no link.
    """

    # Slots, because a struct takes 20 times as many instructions to set a number, twice for each token.
    __slots__ = ("left", "turn_end", "unassigned")

    def __init__(self) -> None:
        self.left = STEP
        self.turn_end = 0
        self.unassigned = 0


class Waiting(Protocol):
    """A user of the queue, such as a link, that takes turns. `given` is the work (units) that it was given so far."""

    given: int

    @property
    def has_read(self) -> bool:
        """Return True for a link that has not acted on a large frame that its translator has read."""

    @property
    def waiting(self) -> int:
        """Return the number of pieces that wait."""

    @property
    def expected(self) -> int:
        """Return the work (units) that each waiting piece is expected to take, of frames at least that of the first."""

    def take(self) -> None:
        """Work until the turn of this link is used up."""


class VirtualTime:
    """The order of the waiting links: fair queueing by virtual time, as in WF2Q+ (Bennett and Zhang, 1997).

    If the waiting links were served a unit each, round and round, each would have been given as much work by now: that
    is the clock. Whole turns are taken in the order in which they would end then:

        start     the work that a link was given (`given`), but at least the clock less a quantum
        finish    the start, and the work that its turn is expected to take: the link with the smallest is next
        clock     grows by each work, divided by the number of the links that wait for it or do it;
                  it is at least the start of the link that takes its turn

    A link that was away, or is new, cannot save up turns, because it starts at most one quantum behind the clock. What
    it is given counts twice until it has caught up: links that come later start as far behind. A turn is at most a
    quantum, but a larger frame counts with its size: small frames do not wait for one large frame of each other link.
    Links with short turns are kept apart, because a part of each step is for them. A link that is more than a quantum
    ahead of the clock is none of them: its turns take more than expected. Of the others, a link that has read a large
    frame is next: what many links had read at once would be memory that no meter counts.

    Round robin with deficits (Shreedhar and Varghese, 1995) would need no heap and no clock. But its rounds are long if
    frames are larger than a quantum, and a frame may be as large as 256 of them.
    """

    __slots__ = ("_clock", "_long", "_numbers", "_short", "count")

    def __init__(self) -> None:
        self.count = 0
        """The number of links that wait."""
        self._clock = QUANTUM  # so that the first links start as far behind it as all later ones
        self._numbers = count()  # of two links with the same finish the first one is next
        self._short: list[tuple[int, int, Waiting]] = []
        self._long: list[tuple[int, int, Waiting]] = []

    def add_link(self, link: Waiting) -> None:
        """Add a link, which waits from now on."""
        self.count += 1
        link.given = max(link.given, self._clock - QUANTUM)
        if link.has_read:
            heappush(self._long, (0, next(self._numbers), link))
            return
        expected = link.expected
        turn = min(link.waiting * expected, max(expected, QUANTUM))
        is_short = turn <= QUICK and link.given <= self._clock + QUANTUM
        heappush(self._short if is_short else self._long, (link.given + turn, next(self._numbers), link))

    def take_next(self, *, is_for_short: bool) -> Waiting:
        """Remove and return the next link. With `is_for_short`, links with short turns come first."""
        self.count -= 1
        is_short = self._short and (is_for_short or not self._long)
        _, _, link = heappop(self._short if is_short else self._long)
        self._clock = max(self._clock, link.given)
        return link

    def note_work(self, link: Waiting, work: int) -> None:
        """Add the work (units) of a turn to the link's account, and advance the clock."""
        behind = max(0, self._clock - link.given)
        link.given += work + min(work, behind)
        self._clock += work // (self.count + 1)


class FairQueue:
    """The work that the current step may still do, and the links that wait for a later step.

    `soon` runs a function in the next iteration of the event loop.
    """

    def __init__(self, soon: Callable[[Callable[[], None]], object] | None = None) -> None:
        self.budget = StepBudget()
        self.arrivals = Crowd(self, ENTER)
        """The clients that are about to be shown a session: many may connect at once, and its history may be long."""
        self.departures = Crowd(self, LEAVE)
        """The links that are about to end: thousands of peers may vanish in one moment."""
        self.is_closed = False
        self._soon = soon
        self._links = VirtualTime()
        self._scheduled = False

    @property
    def waiting_links(self) -> int:
        """The number of links that wait for a later step."""
        return self._links.count

    def close_to_clients(self) -> None:
        """Stop handling frames of clients: the gateway ends. Backends and sliced work are served in the steps."""
        self.is_closed = True
        self.budget.turn_end = STEP  # so that a lone frame of a client has to wait, too

    def admit(self, frames: Sequence[Frame], each: int = FRAME) -> Sequence[Frame]:
        """Return the first frames, as many as this turn has room for, and count their work: their bytes, and `each`.

        The last of them may cost more than is left: a frame cannot be divided. One above a step has a turn of its own.
        """
        budget = self.budget
        room, spent = budget.left - budget.turn_end, 0
        admitted = frames[: room // each + 1] if room > 0 else ()
        if not frames:
            spent = QUANTUM  # the transport read only blank lines, and has more of them
        elif set(map(type, admitted)) == {bytes} and (size := sum(map(len, admitted))) + each * len(admitted) <= room:  # type: ignore[arg-type]  # all are bytes
            budget.left -= size + each * len(admitted)
            return admitted
        for number, frame in enumerate(admitted):
            size = _size(frame)
            if spent >= room or (number and size > STEP):
                admitted = frames[:number]
                break
            spent += each + size
        budget.left -= spent
        return admitted

    def spend(self, units: int) -> None:
        """Count costly work beside that of frames: the next iteration of the loop begins another step.

        Without another step, the work of many iterations would add up, until a frame waits although no other link does.
        """
        self.budget.left -= units
        if not self._scheduled:
            self._schedule()

    def enqueue(self, turns: Waiting) -> None:
        """Give a link a turn in one of the following steps. It must not wait already."""
        self._links.add_link(turns)
        if not self._scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._scheduled = True
        (self._soon or asyncio.get_running_loop().call_soon)(self._step)

    def _step(self) -> None:
        """Serve waiting links until the units of this step are used; the first half is for short turns."""
        budget, links = self.budget, self._links
        budget.left = STEP
        try:
            while budget.left > 0 and links.count:
                self._serve(links.take_next(is_for_short=budget.left > STEP // 2))
        finally:
            budget.turn_end = STEP if self.is_closed else 0
            self._scheduled = False
            if links.count:
                self._schedule()

    def _serve(self, turns: Waiting) -> None:
        budget = self.budget
        before = budget.left
        budget.turn_end = max(0, before - QUANTUM) if self._links.count else 0
        budget.unassigned = 0
        try:
            turns.take()
        finally:
            self._links.note_work(turns, before - budget.left - budget.unassigned)
            if turns.waiting:
                self.enqueue(turns)


class Crowd:
    """Queued pieces of work of many links, which together are served like one link.

    `expected` is the work (units) of a piece.
    """

    __slots__ = ("_pieces", "_queue", "expected", "given")

    has_read = False

    def __init__(self, queue: FairQueue, expected: int) -> None:
        self.expected = expected
        self.given = 0
        self._queue = queue
        self._pieces: deque[Callable[[], None]] = deque()

    @property
    def waiting(self) -> int:
        return len(self._pieces)

    def add_piece(self, act: Callable[[], None]) -> None:
        """Call `act` once the step has room for it: now, or in a later step."""
        budget = self._queue.budget
        if not self._pieces and budget.left > budget.turn_end:
            budget.left -= self.expected
            act()
            return
        self._pieces.append(act)
        if len(self._pieces) == 1:
            self._queue.enqueue(self)

    async def wait_for_turn(self) -> None:
        """Return once the step has room for a piece of work that the caller does then."""
        turn = Flag()
        self.add_piece(turn.set)
        await turn.wait()

    def take(self) -> None:
        budget, pieces = self._queue.budget, self._pieces
        while pieces and budget.left > budget.turn_end:
            budget.left -= self.expected
            pieces.popleft()()


class Turns:
    """The turns of one link.

    `resume` passes the frames that wait in its transport to the link again. `check` returns a frame, or an Oversize if
    it is over a limit. It returns None for a large frame, of which it checks another slice in the next turn. `each` is
    the work (units) of one frame beside its bytes. `expect` returns the least work that a frame is expected to take.
    """

    __slots__ = (
        "_check",
        "_each",
        "_expect",
        "_first",
        "_queue",
        "_resume",
        "_waits",
        "given",
        "has_read",
        "piece",
        "usual",
        "waiting",
    )

    def __init__(
        self,
        queue: FairQueue,
        resume: Callable[[], None],
        check: Callable[[Frame], Frame | None] | None = None,
        each: int = FRAME,
        expect: Callable[[Frame], int] = memory,
    ) -> None:
        self._each = each
        self._expect = expect
        self._check = check
        self.given = 0
        """Work (units) that the link was given while others waited."""
        self.has_read = False
        """True until the next turn if the translator has read a large frame on which the link acts then."""
        self.usual = each if check is None else QUANTUM
        """Work (units) that a turn of the link is expected to take; its link notes what a client's last one took."""
        self.piece = PIECE if check is None else 1
        """Number of frames that are handled at once."""
        self.waiting = 0
        """Number of frames that wait in the transport, as far as the link knows."""
        self._queue = queue
        self._resume = resume
        self._waits = False  # True while the link waits for a turn, and during the turn
        self._first = 0  # work that the first waiting frame is expected to take at least

    @property
    def expected(self) -> int:
        """Return the work (units) of a frame that waits."""
        return max(self._first, self.usual)

    def admit(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        """Return the first frames, as many as there is room for now.

        The link waits for a turn with the others. An empty `frames` means that the transport must first split data.
        """
        if self._queue.is_closed and self._check is not None:
            self._waits, self.waiting = True, 0
            return ()
        some = frames if self._check is None else frames[:CLIENT_FRAMES]  # only handling a command shows what it costs
        admitted = self._queue.admit(some, self._each)
        checked = admitted
        if self._check is not None:
            checked = [frame for frame in map(self._check, admitted) if frame is not None]
        self.waiting = 0
        if len(checked) < len(frames) or not frames:
            self.wait(frames[len(checked) :])
        if len(checked) < len(admitted):  # one above a step, which is alone
            self._queue.budget.left += _size(admitted[0]) + self._each - STEP  # counted again when it is admitted
            self._first = STEP
        return checked

    def wait(self, frames: Sequence[Frame], *, has_read: bool = False) -> None:
        """Wait for a turn with these frames. Without frames, the transport has data that it must split first."""
        self.has_read = self.has_read or has_read
        self.waiting += len(frames) or 1
        self._first = self._expect(frames[0]) if frames else 0
        if not self._waits:
            self._waits = True
            self._queue.enqueue(self)

    def note_cost(self, frames: int, units: int) -> None:
        """Handle as many frames of a backend at once as fill half a step, after so many took so much work (units).

        After costly frames the number grows by the factor 2 at most: cheap and costly reads may alternate.
        """
        self.piece = max(FEW, min(PIECE, 2 * self.piece, STEP // 2 * frames // max(1, units)))

    def pieces(self, frames: Sequence[Frame]) -> Iterator[Sequence[Frame]]:
        """Yield the admitted frames in pieces as they are handled, while the step has room for more.

        Only handling a command shows what it costs, so a piece is one frame of a client. What a backend says is paid
        for when it is admitted, so a piece is PIECE frames; it may cost a quantum more, if it begins turns or is bad.
        After a read whose frames were costly, such as questions, a piece has as many as fill half a step.
        """
        budget, size = self._queue.budget, self.piece
        end = budget.turn_end if self._check is not None else min(budget.turn_end, budget.left) - QUANTUM
        for number in range(0, len(frames), size):
            if number and budget.left <= end:
                left = frames[number:]
                budget.left += sum(map(_size, left)) + self._each * len(left)  # counted again when they are admitted
                self.wait(left)
                return
            yield frames[number : number + size]

    def take(self) -> None:
        """Act on waiting frames until the turn of this link is used up."""
        self.waiting, self.has_read = 0, False
        if self._queue.is_closed and self._check is not None:
            return  # the link still waits, so `stop` shows it the frames
        self._resume()
        self._waits = self.waiting > 0

    def stop(self) -> None:
        """Pass the waiting frames to a link that has ended, which drops them."""
        if self._waits:
            self._resume()
            self.waiting = 0


class SlicedWork:
    """Work of one link besides its frames, done in slices: an iterator does one slice at each step, and counts it.

    It continues while the step has units left, and then takes turns. `fail` is called with the exception of a slice.
    `expected` is the work (units) of a piece as far as that is known before.
    """

    __slots__ = ("_fail", "_pieces", "_queue", "_running", "expected", "given", "waiting")

    has_read = False

    def __init__(self, queue: FairQueue, fail: Callable[[Exception], None], expected: int = FRAME) -> None:
        self.expected = expected
        self._queue = queue
        self._fail = fail
        self._pieces: deque[Iterator[None]] = deque()
        self._running = False
        self.given = 0
        self.waiting = 0
        """Number of pieces that wait for a turn, or are done in this one."""

    def count(self, units: int) -> None:
        self._queue.budget.left -= units

    def add_work(self, work: Iterator[None]) -> None:
        """Queue work, to be done after the work that was added before."""
        self._pieces.append(work)
        waits, self.waiting = self.waiting > 0, len(self._pieces)
        if waits or self._running:
            return
        self.take()
        if self.waiting:
            self._queue.enqueue(self)

    def take(self) -> None:
        budget = self._queue.budget
        self._running = True
        try:
            while (pieces := self._pieces) and budget.left > budget.turn_end:
                try:
                    next(pieces[0])
                except StopIteration:
                    pieces.popleft()
        except Exception as error:  # noqa: BLE001  # no caller is above a turn: the failure ends the link alone
            self.stop()
            self._fail(error)
        finally:
            self._running = False
            self.waiting = len(self._pieces)

    def end_link(self, act: Callable[[], None]) -> None:
        """Queue `act`, which ends the link, with the ends of other links."""
        self._queue.departures.add_piece(act)

    def stop(self) -> None:
        """Drop the queued work: the link has ended."""
        self._pieces = deque()  # not cleared: a slice that ends its own link is removed from the other one


def _size(frame: Frame) -> int:
    """Return the work (units) of the bytes of a frame."""
    return len(frame) if type(frame) is bytes else memory(frame)
