"""The input that began the run of one session, which must be known before the events of the run are passed on.

Publications wait until an input of ours is answered: the run that they belong to may be another client's. Released
primaries never publish their users' input, so the list is read for it when a run begins that no client of ours asked
for.
"""

from __future__ import annotations

from msgspec import Struct

from dragoman.mappings.canonical.values import Message
from dragoman.mappings.rfc3339 import NS

LEARN_MAX = 1.0  # seconds that the output of a run is held until the input that began it is known


class ListCall(Struct):
    """The call of `message.list`: whether it is wanted, and whether it has no reply yet."""

    wanted: bool = False
    called: bool = False

    def want(self) -> None:
        self.wanted = True

    def cancel(self) -> None:
        """Note that no further call is wanted."""
        self.wanted = False

    def begin(self) -> bool:
        """Return True if the call is made now: it is wanted, and the last one has its reply."""
        is_due = self.wanted and not self.called
        if is_due:
            self.wanted, self.called = False, True
        return is_due

    def end(self) -> None:
        """Note the reply, or that none will come."""
        self.wanted = self.called = False


class RunInput:
    """The input that began the run of one session."""

    def __init__(self, list_call: ListCall) -> None:
        self._list_call = list_call
        self.id = ""
        """The id of the message with the input, if known."""
        self.ours: str | None = None
        """The text of the input, if a client of ours sent it."""
        self.is_old = False
        """True if the store had no new input when the run had begun: we joined in its middle, or it continues one."""
        self.held = 0
        """The number of events that were held when an input of ours was sent: they belong to runs before it."""
        self._submitting = 0  # inputs of ours that have no answer
        self._learning: int | None = None  # ns: the time since which it is asked for
        self._is_known = False  # it was published, or was asked for

    @property
    def waits(self) -> bool:
        """True if publications must be held."""
        return bool(self._submitting) or self.is_asked_for

    @property
    def is_asked_for(self) -> bool:
        """True while `message.list` is called for the input."""
        return self._learning is not None

    def submit(self, held: int = 0) -> None:
        """Note an input of ours that is sent while `held` events are held."""
        self._submitting += 1
        self.held = held

    def answer(self) -> bool:
        """Note the answer to an input of ours; return True if no other waits for one."""
        self._submitting -= 1
        return not self._submitting

    def learn(self, now: int) -> None:
        """Ask for the input, unless it was published or asked for."""
        if not self._is_known:
            self.doubt(now)

    def doubt(self, now: int) -> None:
        """Ask for the input, unless it is asked for: the output may belong to another run."""
        if self._learning is None:
            self._learning = now
            self._list_call.want()

    def stop_learning(self) -> bool:
        """Stop waiting for the input; return True if it was awaited."""
        if self._learning is None:
            return False
        self._learning, self._is_known = None, True
        return True

    def check_time(self, now: int) -> bool:
        """Stop waiting for the input after LEARN_MAX; return True if that ended the wait now."""
        return self._learning is not None and now - self._learning >= LEARN_MAX * NS and self.stop_learning()

    def publish(self, message: Message) -> None:
        self._is_known, self.id = True, message.id

    def begin(self, ours: str | None) -> None:
        """Begin a run, with an input of ours or another client's."""
        self.ours, self._learning = ours, None

    def end(self) -> None:
        self._learning, self._is_known, self.id, self.is_old = None, False, "", False

    def find(self, listed: tuple[Message, ...], known: set[str]) -> None:
        """Note the last message of a list as the input, unless its id is `known` from before."""
        self.id = listed[-1].id if listed and listed[-1].id not in known else ""
        self.is_old = not self.id
