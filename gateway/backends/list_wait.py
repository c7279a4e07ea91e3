"""Actions of clients that wait until a backend has listed its sessions.

    unknown  --  a list that lacks no known session                      -->  known
    unknown  --  a list, and an answer about each session that it lacks  -->  known
    unknown  --  a short time passes                                     -->  known
    known    --  a connection is lost over which a list came             -->  unknown

Another backend with other sessions may answer after a lost connection. A failed attempt to connect changes nothing. A
client that asks for the list waits longer, while the backend has a connection over which no list came. Hundreds of
actions may wait, so they are done in several steps of the event loop, in order. A list may lack thousands of sessions,
so the backend is asked about a few of them at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from dragoman.gateway.backends.asking import HELD_MAX
from dragoman.gateway.services import Services
from dragoman.gateway.timers import Deadline

DOUBTS_AT_ONCE = 32  # questions that wait for an answer: the calls of clients need room beside them
Action = Callable[[], None]


class ListWait:
    """Holds actions until the sessions of a backend are known."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._waiting: list[Action] = []
        self._deadline = Deadline(services.schedule)
        self._lists: list[Action] = []  # actions that show the list
        self._list_deadline = Deadline(services.schedule)
        self._is_asked = False  # connected, but the backend has not listed its sessions over this connection yet
        self._due: deque[Action] = deque()  # actions that wait for room in a step
        self.is_known = False
        """True if clients need not wait for a list."""
        self._is_listed = False  # the backend has listed its sessions over this connection
        self._asked = 0  # number of sessions that the list lacks, and about which it has not answered
        self._questions: deque[Action] = deque()  # about further sessions, which were not sent yet

    @property
    def must_wait(self) -> bool:
        """Return True if the next action must wait: for the list, or behind other actions."""
        return bool(self._due) or not self.is_known

    def when_known(self, action: Action) -> bool:
        """Call `action` once the sessions are known; return False if too many actions wait for that."""
        if not self.must_wait:
            action()
            return True
        if self.is_known:
            self._run_in_turn([action])
            return True
        if len(self._waiting) >= HELD_MAX:
            return False
        self._waiting.append(action)
        if not self._deadline.is_running:
            self._deadline.start(self._services.limits.snapshot_wait, self._note_known)
        return True

    def when_listed(self, action: Action) -> None:
        """Call `action`, which shows a client the list, once the backend has listed its sessions or is too slow."""
        if not self._is_asked or len(self._lists) >= HELD_MAX:
            action()
            return
        self._lists.append(action)
        if not self._list_deadline.is_running:
            self._list_deadline.start(self._services.limits.open_deadline, self._show_lists)

    def note_connected(self) -> None:
        self._is_asked = not self._is_listed

    def note_list(self, questions: Sequence[Action]) -> None:
        """Note a list of the backend; each of `questions` asks it about a session that the list lacks."""
        self._is_listed = True
        self._questions = deque(questions)  # they include those about sessions that an earlier list lacked
        for _ in questions[:DOUBTS_AT_ONCE]:
            self._services.queue.arrivals.add_piece(self._ask_next)
        self._note_certainty()

    def note_answer(self) -> None:
        """Note that the backend has answered about one session that its list lacks."""
        self._asked -= 1
        if self._questions:
            self._services.queue.arrivals.add_piece(self._ask_next)
        self._note_certainty()

    def note_lost(self) -> None:
        self._asked = 0
        self._questions.clear()
        self._show_lists()
        if self._is_listed:
            self._is_listed = self.is_known = False

    def stop(self) -> None:
        self._deadline.stop()
        self._list_deadline.stop()
        for waiting in (self._waiting, self._lists, self._due, self._questions):
            waiting.clear()

    def _note_certainty(self) -> None:
        if not self._asked and not self._questions:
            self._note_known()
            self._show_lists()

    def _note_known(self) -> None:
        self.is_known = True
        self._deadline.stop()
        waiting, self._waiting = self._waiting, []
        self._run_in_turn(waiting)

    def _show_lists(self) -> None:
        self._is_asked = False
        self._list_deadline.stop()
        lists, self._lists = self._lists, []
        self._run_in_turn(lists)

    def _ask_next(self) -> None:
        if self._questions and self._asked < DOUBTS_AT_ONCE:
            self._asked += 1
            self._questions.popleft()()

    def _run_in_turn(self, actions: Sequence[Action]) -> None:
        self._due += actions
        for _ in actions:
            self._services.queue.arrivals.add_piece(self._run_next)

    def _run_next(self) -> None:
        if self._due:
            self._due.popleft()()
