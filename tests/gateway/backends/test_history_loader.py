"""A resumed conversation is found, opened and loaded before clients receive anything else about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest
from msgspec import structs

from dragoman.gateway.backends.asking import HELD_MAX
from dragoman.gateway.backends.history_loader import PAGE, PATIENCE, RESUMED_MAX, HistoryLoader
from dragoman.gateway.config.model import Limits
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.session.weight import ITEM
from dragoman.mappings.canonical import Command, Event, SessionState
from dragoman.mappings.canonical.commands import (
    CancelTurn,
    GetHistory,
    ListSessions,
    OpenSession,
    Ping,
    PromptOnce,
    ResumeSession,
    SubmitInput,
)
from dragoman.mappings.canonical.events import (
    Alert,
    HistorySnapshot,
    Pong,
    Reply,
    SessionOpened,
    SessionsListed,
    TextDelta,
    TurnEnded,
)
from dragoman.mappings.canonical.values import Cause, Failure, Message, SessionSummary, Text
from dragoman.mappings.dialect import Burst
from dragoman.mappings.smooth.vocabulary import keep
from tests.gateway.in_memory import ManualClock
from tests.services import services

NO = Failure(cause="not_found", text="no")


def message(text: str) -> Message:
    return Message(role="user", text=text, id=text)


class HistoryLoaderStage:
    """A HistoryLoader between a session and a backend that are both played by the test."""

    def __init__(
        self,
        resume: str = "",
        *,
        taken: bool = False,
        visible: bool = True,
        stored: bool = True,
        limits: Limits = Limits(),  # noqa: B008  # frozen
    ) -> None:
        numbers = count(1)
        self.state = SessionState(id="s", opening=OpenSession(agent="agent", user_name="Ann"))
        self.asked: list[Command] = []
        self.told: list[Event] = []
        self.failed: list[tuple[str, list[str]]] = []
        self.time, self.ledger = ManualClock(), Ledger()
        self.loader = HistoryLoader(
            self,
            services(self.time, limits=limits, ledger=self.ledger, new_id=lambda: f"own-{next(numbers)}"),
            lambda _events: self,
            resume=resume,
            taken=lambda _id: taken,
            find=lambda listed: listed[0] if listed and visible else "",
            stored=stored,
        )
        self.starts = 0

    # -- as session ------------------------------------------------------------------------------------

    def connected(self) -> None: ...

    def receive(self, bursts: list[Burst[Any]]) -> None:
        for burst in bursts:
            for item in burst.items:
                self.told.append(item)
                if isinstance(item, HistorySnapshot):
                    self.state.transcript = list(item.items)
                elif isinstance(item, Alert):
                    self.state.add_alert(item)

    def lost(self, text: str, unsent: Sequence[Command], cause: Cause = "upstream_lost") -> bool:
        self.failed.append((text, [command.request for command in unsent]))
        return False

    # -- as backend ------------------------------------------------------------------------------------

    def start(self) -> None:
        self.starts += 1

    def send(self, commands: Sequence[Command]) -> None:
        self.asked += commands

    def suspend(self) -> bool:
        self.asked = []
        return False

    def stop(self) -> None:
        self.asked = []

    # -- the test --------------------------------------------------------------------------------------

    def last(self, kind: type) -> Any:
        assert type(self.asked[-1]) is kind, self.asked
        return self.asked[-1]

    def answers(self, event: Any) -> None:
        """Answer the backend's last request."""
        self.loader.receive([Burst(items=[structs.replace(event, request=self.asked[-1].request)])])

    def opened(self, conversation: str = "c1") -> None:
        self.last(ResumeSession)
        self.answers(SessionOpened(request="", session=conversation))

    def pages(self, *pages: Sequence[str], more: bool = False) -> None:
        """Answer with pages of texts, newest first; the last page is the end unless there is `more`."""
        for number, texts in enumerate(pages, start=1):
            self.last(GetHistory)
            cursor = texts[-1] if more or number < len(pages) else None
            self.answers(HistorySnapshot(items=tuple(map(message, texts)), next_cursor=cursor))

    def history(self) -> list[str]:
        return [item.text for item in self.state.transcript if isinstance(item, Message)]


def submit(request: str) -> SubmitInput:
    return SubmitInput(request=request, segments=(Text(text="Hi"),))


# -- what an endpoint resumes ------------------------------------------------------------------------


def test_without_a_session_to_resume_commands_and_events_pass_unchanged() -> None:
    stage = HistoryLoaderStage()
    stage.loader.start()
    stage.loader.send([submit("r")])
    stage.loader.receive([Burst(items=[TextDelta(text="x")])])
    assert (stage.starts, stage.asked, stage.told) == (1, [submit("r")], [TextDelta(text="x")])


def test_a_resumed_id_has_the_agent_of_the_route_and_its_pages_are_one_history() -> None:
    stage = HistoryLoaderStage("c1")
    stage.loader.start()
    asked = stage.last(ResumeSession)
    assert (asked.session, asked.agent, asked.user_name) == ("c1", "agent", "Ann")
    stage.opened()
    assert stage.last(GetHistory).limit == PAGE
    stage.pages(["5", "4"], ["3", "2"], ["1"])
    opened, history = stage.told
    assert isinstance(opened, SessionOpened)
    assert isinstance(history, HistorySnapshot)
    assert (opened.request, history.request, history.rotated) == ("", "", False)
    assert stage.history() == ["1", "2", "3", "4", "5"]
    assert [page.cursor for page in stage.asked if isinstance(page, GetHistory)] == ["", "4", "2"]


def test_a_thread_requested_by_its_name_counts_as_the_opened_one() -> None:
    thread = "0198c3a1-0000-4000-8000-0000000000d1"
    stage = HistoryLoaderStage(f"thread-{thread}")
    stage.loader.start()
    stage.opened(thread)
    stage.pages(["1"])
    assert [type(event) for event in stage.told] == [SessionOpened, HistorySnapshot], "and nobody is warned of another"


def test_the_latest_is_the_first_of_the_backends_list() -> None:
    stage = HistoryLoaderStage("latest")
    stage.loader.start()
    assert stage.last(ListSessions).limit == 1
    stage.answers(SessionsListed(request="", sessions=(SessionSummary(session="c9"), SessionSummary(session="c1"))))
    assert stage.last(ResumeSession).session == "c9"
    stage.opened("c9")
    stage.pages(["1"])
    assert stage.history() == ["1"]


def test_without_a_latest_conversation_a_new_one_is_opened() -> None:
    for answer in (SessionsListed(request="", sessions=()), Reply(request="", failure=NO)):
        stage = HistoryLoaderStage("latest")
        stage.loader.send([submit("r")])
        stage.answers(answer)
        assert stage.told == [HistorySnapshot(items=())]
        assert stage.asked[-1] == submit("r")


def test_a_conversation_that_is_already_open_is_not_opened_twice() -> None:
    stage = HistoryLoaderStage("latest", taken=True)
    stage.loader.send([submit("r")])
    stage.answers(SessionsListed(request="", sessions=(SessionSummary(session="c9"),)))
    assert [type(command) for command in stage.asked] == [ListSessions]
    assert [requests for _, requests in stage.failed] == [["r"]]


def test_the_latest_conversation_of_another_user_is_not_resumed() -> None:
    stage = HistoryLoaderStage("latest", taken=True, visible=False)
    stage.loader.send([submit("r")])
    stage.answers(SessionsListed(request="", sessions=(SessionSummary(session="c9"),)))
    assert stage.told == [HistorySnapshot(items=())]
    assert stage.asked[-1] == submit("r")


def test_opening_another_conversation_than_requested_is_reported() -> None:
    stage = HistoryLoaderStage("c1")
    stage.loader.start()
    stage.opened("c2")
    stage.pages([])
    (alert,) = [event for event in stage.told if isinstance(event, Alert)]
    assert "c1" in alert.text


def test_commands_wait_for_the_history_and_keep_their_order() -> None:
    stage = HistoryLoaderStage("c1")
    stage.loader.send([submit("r")])
    stage.loader.send([CancelTurn(request="c")])
    stage.opened()
    assert not [command for command in stage.asked if command.request in "rc"]
    stage.pages(["1"])
    assert [command.request for command in stage.asked[-2:]] == ["r", "c"]
    assert isinstance(stage.told[-1], HistorySnapshot)


def test_commands_above_the_limit_are_refused() -> None:
    stage = HistoryLoaderStage("c1")
    stage.loader.send([submit(str(n)) for n in range(HELD_MAX + 1)])
    assert [requests for _, requests in stage.failed] == [[str(HELD_MAX)]]


def test_other_events_of_the_backend_reach_the_session_meanwhile() -> None:
    stage = HistoryLoaderStage("c1")
    stage.loader.start()
    stage.loader.receive([Burst(items=[TextDelta(text="x")])])
    assert stage.told == [TextDelta(text="x")]


# -- bounds ------------------------------------------------------------------------------------------


def test_messages_above_the_limit_are_not_loaded_but_counted() -> None:
    stage = HistoryLoaderStage("c1")
    stage.loader.start()
    stage.opened()
    stage.pages(*([f"{page}-{n}" for n in range(PAGE)] for page in range(RESUMED_MAX // PAGE)), more=True)
    assert len(stage.history()) == RESUMED_MAX
    assert [entry.kind for entry in stage.ledger.entries()] == ["HistorySnapshot"]


def test_the_size_of_the_loaded_text_is_bounded() -> None:
    stage = HistoryLoaderStage("c1", limits=Limits(transcript_max=4096))
    stage.loader.start()
    stage.opened()
    stage.pages(["x" * 1500], ["y" * 1500], more=True)
    assert len(stage.history()) == 2
    assert [entry.kind for entry in stage.ledger.entries()] == ["HistorySnapshot"]


def test_at_the_deadline_the_pages_so_far_are_the_history() -> None:
    stage = HistoryLoaderStage("c1")
    stage.loader.send([submit("r")])
    stage.opened()
    stage.pages(["2"], more=True)
    stage.time.passes(PATIENCE)
    assert stage.history() == ["2"]
    assert stage.asked[-1] == submit("r")
    assert [entry.kind for entry in stage.ledger.entries()] == ["HistorySnapshot"]
    assert stage.time.waiting == []


# -- what goes wrong ---------------------------------------------------------------------------------


def test_a_refusal_fails_the_waiting_commands_and_the_next_command_asks_again() -> None:
    stage = HistoryLoaderStage("c1")
    stage.loader.send([submit("r")])
    stage.answers(Reply(request="", failure=NO))
    stage.answers(SessionsListed(request="", sessions=()))
    assert stage.failed == [("no", ["r"])]
    stage.loader.send([submit("r2")])
    assert stage.last(ResumeSession).session == "c1"


def test_a_conversation_is_not_resumed_again_after_an_answer_without_a_session() -> None:
    stage = HistoryLoaderStage("c1")
    stage.loader.send([submit("r")])
    stage.answers(Reply(request=""))
    stage.loader.send([submit("r2")])
    assert [command.request for command in stage.asked[1:]] == ["r", "r2"]


def test_a_silent_backend_fails_the_waiting_commands() -> None:
    stage = HistoryLoaderStage("c1")
    stage.loader.send([submit("r")])
    stage.time.passes(Limits().accept_deadline)
    assert [requests for _, requests in stage.failed] == [["r"]]


def test_an_unreachable_backend_fails_waiting_commands_but_not_our_own_request() -> None:
    stage = HistoryLoaderStage("c1")
    stage.loader.send([submit("r")])
    stage.loader.lost("away", [stage.asked[-1]])
    assert stage.failed == [("away", ["r"])]
    stage.loader.start()
    assert stage.last(ResumeSession).request == "own-2"


def test_losing_the_backend_between_pages_keeps_the_pages_so_far() -> None:
    stage = HistoryLoaderStage("c1")
    stage.loader.start()
    stage.opened()
    stage.pages(["2"], more=True)
    stage.loader.lost("away", [])
    assert stage.history() == ["2"]
    assert stage.failed == [("away", [])]


def test_a_page_that_is_refused_ends_the_history_and_clients_are_told_why() -> None:
    """A codewhale 0.10.2 reads no thread of more than 8 MiB (docs/dialects/codewhale.md, section 12)."""
    stage = HistoryLoaderStage("c1")
    stage.loader.start()
    stage.opened()
    stage.pages(["2"], more=True)
    stage.answers(Reply(request="", failure=NO))
    assert stage.history() == ["2"]
    assert stage.told[-1] == Alert(level="warn", source="gateway", text="earlier messages are missing: no")
    assert [entry.kind for entry in stage.ledger.entries()] == ["HistorySnapshot"]


def test_a_refused_history_is_read_again_after_the_next_turn() -> None:
    """A codewhale 0.10.2 shows an unloaded thread only after an input (docs/dialects/codewhale.md, section 12)."""
    stage = HistoryLoaderStage("c1")
    stage.loader.start()
    stage.opened()
    stage.answers(Reply(request="", failure=NO))
    ended = [Burst[Event](items=[TurnEnded(end="completed")])]
    stage.loader.receive(ended)
    assert len(stage.state.alerts) == 1
    stage.pages(["2"], ["1"])
    assert stage.history() == ["1", "2"]
    assert stage.state.alerts == []
    asked = len(stage.asked)
    stage.loader.receive(ended)
    assert len(stage.asked) == asked


def test_clients_are_told_once_that_a_history_is_refused() -> None:
    stage = HistoryLoaderStage("c1")
    stage.loader.start()
    stage.opened()
    stage.answers(Reply(request="", failure=NO))
    stage.loader.receive([Burst[Event](items=[TurnEnded(end="completed")])])
    stage.answers(Reply(request="", failure=NO))
    assert [type(event) for event in stage.told] == [SessionOpened, HistorySnapshot, Alert, TurnEnded]


def test_a_stopped_loader_waits_for_nothing() -> None:
    stage = HistoryLoaderStage("c1")
    stage.loader.start()
    stage.loader.suspend()
    stage.loader.stop()
    assert stage.time.waiting == []


# -- what a client resumes ---------------------------------------------------------------------------


def test_a_resuming_client_is_answered_once_the_history_is_loaded() -> None:
    """The answer of a codewhale contains the history (docs/translation.md, section 1)."""
    stage = HistoryLoaderStage()
    stage.loader.send([ResumeSession(request="open", session="c1")])
    stage.opened()
    assert stage.told == []
    stage.pages(["2"], ["1"])
    assert stage.history() == ["1", "2"]
    assert stage.told[0] == SessionOpened(request="", session="c1"), "first: by it the session gets its id"
    assert stage.told[2:] == [SessionOpened(request="open", session="c1")]


@pytest.mark.parametrize(
    "end",
    [
        lambda stage: stage.loader.lost("away", []),
        lambda stage: stage.time.passes(PATIENCE),
        lambda stage: stage.pages([]),
    ],
    ids=["lost", "late", "empty"],
)
def test_a_resuming_client_is_answered_also_without_a_history(end: Callable[[HistoryLoaderStage], None]) -> None:
    stage = HistoryLoaderStage()
    stage.loader.send([ResumeSession(request="open", session="c1")])
    stage.opened()
    end(stage)
    assert stage.told[-1] == SessionOpened(request="open", session="c1")
    assert stage.history() == []


def test_a_client_that_resumes_an_open_session_is_answered_with_what_is_newer() -> None:
    stage = HistoryLoaderStage()
    stage.state.transcript = [message("1")]
    stage.loader.send([ResumeSession(request="open", session="c1")])
    stage.opened()
    assert stage.told == []
    stage.pages(["2", "1"])
    assert stage.history() == ["1", "2"]
    assert stage.told[1:] == [SessionOpened(request="open", session="c1")]


def test_a_prompt_in_a_conversation_adds_its_messages_to_the_history() -> None:
    """A codewhale stores the messages of a `prompt/run` in the thread that it names (its page, section 3)."""
    stage = HistoryLoaderStage()
    stage.state.transcript = [message("1")]
    stage.loader.send([PromptOnce(request="p", session="c1", prompt="2")])
    stage.loader.receive([Burst(items=[Reply(request="p")])])
    stage.pages(["3", "2", "1"])
    assert stage.history() == ["1", "2", "3"]
    assert stage.told[1:] == [Reply(request="p")]
    stage.loader.send([PromptOnce(request="q", session="c1", prompt="4")])
    stage.loader.receive([Burst(items=[Reply(request="q", failure=NO)])])
    assert stage.told[2:] == [Reply(request="q", failure=NO)]


@pytest.mark.parametrize("lost", [True, False])
def test_a_client_that_resumes_an_open_session_is_answered_also_if_no_history_comes(lost: bool) -> None:
    stage = HistoryLoaderStage()
    stage.state.transcript = [message("1")]
    stage.loader.send([ResumeSession(request="open", session="c1")])
    stage.opened()
    stage.loader.lost("away", []) if lost else stage.time.passes(PATIENCE)
    assert stage.told == [SessionOpened(request="open", session="c1")]


def test_a_client_whose_resume_is_refused_gets_only_the_refusal() -> None:
    stage = HistoryLoaderStage()
    stage.loader.send([ResumeSession(request="open", session="c1")])
    stage.answers(Reply(request="", failure=NO))
    assert stage.told == [Reply(request="open", failure=NO)]
    stage.loader.send([submit("r")])
    assert stage.asked[-1] == submit("r")


# -- a connection that is made again -----------------------------------------------------------------


AGAIN = [Burst[Event](items=[SessionOpened(request="", session="c1")])]


def severed(*known: str, stored: bool = True) -> HistoryLoaderStage:
    """Return a loader whose session knows these messages, and whose connection was lost."""
    stage = HistoryLoaderStage(stored=stored)
    stage.state.backend_ids = keep(sessionId="s1", conversationId="c1")
    stage.state.transcript = [message(text) for text in known]
    stage.loader.lost("away", [])
    return stage


@pytest.mark.parametrize("stored", [True, False])
def test_messages_of_other_clients_are_added_once_the_connection_is_made_again(stored: bool) -> None:
    stage = severed("1", "2", stored=stored)
    stage.loader.receive(AGAIN)
    stage.pages(["4", "3", "2", "1"])
    assert stage.history() == ["1", "2", "3", "4"]
    stage.loader.receive(AGAIN)
    assert len(stage.asked) == 1


def test_an_input_over_a_new_connection_waits_for_the_messages_of_other_clients() -> None:
    stage = severed("1", "2")
    stage.loader.send([submit("r")])
    assert [type(command) for command in stage.asked] == [GetHistory]
    stage.loader.receive(AGAIN)
    stage.pages(["3", "2"])
    assert stage.history() == ["2", "3"]
    assert stage.asked[1:] == [submit("r")]


def test_nothing_is_told_if_the_history_is_refused() -> None:
    stage = severed("1", "2")
    stage.loader.send([submit("r")])
    stage.answers(Reply(request="", failure=NO))
    assert stage.told == []
    assert stage.asked[-1] == submit("r")


def test_an_input_does_not_wait_for_a_history_that_does_not_come() -> None:
    stage = severed("1")
    stage.loader.send([submit("r")])
    stage.time.passes(PATIENCE)
    assert stage.asked[-1] == submit("r")
    assert [entry.kind for entry in stage.ledger.entries()] == ["HistorySnapshot"]


def test_messages_that_came_too_late_are_read_once_more_after_the_next_turn() -> None:
    """A codewhale 0.10.2 goes on with the turn of a process that was killed, and tells nothing until its end."""
    stage = severed("1", "2")
    stage.loader.send([submit("r")])
    stage.time.passes(PATIENCE)
    ended = [Burst[Event](items=[TurnEnded(end="completed")])]
    stage.loader.receive(ended)
    stage.time.passes(PATIENCE)
    asked = len(stage.asked)
    stage.loader.receive(ended)
    assert [type(command) for command in stage.asked] == [GetHistory, SubmitInput, GetHistory]
    assert len(stage.asked) == asked


def test_the_messages_are_asked_for_again_if_the_new_connection_is_lost_too() -> None:
    stage = severed("1")
    stage.loader.receive(AGAIN)
    stage.loader.lost("away", [])
    stage.loader.receive(AGAIN)
    stage.pages(["2", "1"])
    assert stage.history() == ["1", "2"]


def test_a_backend_that_never_opened_the_conversation_is_asked_for_no_messages() -> None:
    stage = HistoryLoaderStage()
    stage.loader.lost("away", [])
    stage.loader.send([submit("r")])
    assert stage.asked == [submit("r")]


def refused_and_severed() -> HistoryLoaderStage:
    """Return a loader whose backend refused the history of a resumed conversation, before the connection was lost."""
    stage = HistoryLoaderStage("c1")
    stage.loader.start()
    stage.opened()
    stage.answers(Reply(request="", failure=NO))
    stage.state.backend_ids = keep(sessionId="s1", conversationId="c1")
    stage.loader.lost("away", [])
    return stage


def test_a_refused_history_is_still_read_after_the_next_turn_if_the_connection_is_lost_before() -> None:
    stage = refused_and_severed()
    stage.loader.send([submit("r")])
    stage.answers(Reply(request="", failure=NO))
    assert stage.asked[-1] == submit("r")
    stage.loader.receive([Burst[Event](items=[TurnEnded(end="completed")])])
    stage.pages(["2"], ["1"])
    assert (stage.history(), stage.state.alerts) == (["1", "2"], [])


def test_a_new_connection_is_asked_for_the_whole_history_that_the_former_one_refused() -> None:
    stage = refused_and_severed()
    stage.loader.receive(AGAIN)
    stage.pages(*([f"{page}-{n}" for n in range(PAGE)] for page in range(3)))
    assert (len(stage.history()), stage.state.alerts) == (3 * PAGE, [])


def test_clients_are_told_of_missing_messages_until_all_pages_came() -> None:
    stage = refused_and_severed()
    stage.loader.receive(AGAIN)
    stage.pages(["2"], more=True)
    stage.time.passes(PATIENCE)
    assert (stage.history(), len(stage.state.alerts)) == (["2"], 1)


# -- long histories that clients ask for ---------------------------------------------------------------


WHOLE = GetHistory(request="h", limit=1 << 30)
MOST = 1 << 20


class Store(HistoryLoaderStage):
    """The stage with a backend that has `size` messages, "0" the oldest; `step` answers one request."""

    def __init__(self, size: int, *, most: int = MOST) -> None:
        super().__init__(limits=Limits(transcript_max=most))
        self.size = size
        self.open: list[Command] = []

    def send(self, commands: Sequence[Command]) -> None:
        super().send(commands)
        self.open += commands

    def sends(self, *events: Event) -> None:
        self.loader.receive([Burst(items=list(events))])

    def step(self) -> None:
        """Answer the oldest open request with a page."""
        asked = self.open.pop(0)
        assert isinstance(asked, GetHistory)
        newest = int(asked.cursor) if asked.cursor else self.size
        numbers = range(newest - 1, max(newest - asked.limit, 0) - 1, -1)
        items = tuple(Message(role="user", text=str(n), id=str(n)) for n in numbers)
        cursor = str(numbers[-1]) if numbers and numbers[-1] > 0 else None
        self.sends(HistorySnapshot(request=asked.request, items=items, next_cursor=cursor))

    def run(self) -> None:
        while self.open:
            self.step()


def texts(event: Event) -> list[str]:
    assert isinstance(event, HistorySnapshot)
    return [item.text for item in event.items if isinstance(item, Message)]


@pytest.mark.parametrize("size", [0, 1, PAGE, PAGE + 1, 2 * PAGE, 3 * PAGE + 7])
def test_a_whole_history_is_requested_in_pages_and_answered_once(size: int) -> None:
    store = Store(size)
    store.loader.send([WHOLE])
    store.run()
    assert {asked.limit for asked in store.asked if isinstance(asked, GetHistory)} == {PAGE}
    (answer,) = store.told
    assert texts(answer) == [str(n) for n in reversed(range(size))]
    assert isinstance(answer, HistorySnapshot)
    assert (answer.request, answer.next_cursor) == ("h", None)
    assert len(store.asked) == max(1, -(-size // PAGE))


def test_no_more_messages_are_requested_than_the_client_wants() -> None:
    store = Store(500)
    store.loader.send([GetHistory(request="h", limit=150)])
    store.run()
    assert [asked.limit for asked in store.asked if isinstance(asked, GetHistory)] == [100, 50]
    (answer,) = store.told
    assert isinstance(answer, HistorySnapshot)
    assert (len(answer.items), answer.next_cursor) == (150, "350")


@pytest.mark.parametrize("limit", [0, 1, PAGE])
def test_a_requested_page_is_passed_on_unchanged(limit: int) -> None:
    store = Store(500)
    page = GetHistory(request="h", limit=limit, cursor="7")
    store.loader.send([page])
    assert store.asked == [page]
    answer = HistorySnapshot(request="h", items=(), next_cursor="6")
    store.sends(answer)
    assert store.told == [answer]


def test_other_events_are_passed_on_at_once_meanwhile() -> None:
    store = Store(500)
    store.loader.send([WHOLE, Ping(request="p")])
    store.sends(Pong(request="p", at=1))
    assert store.told == [Pong(request="p", at=1)]


def test_two_histories_requested_together_are_both_answered() -> None:
    store = Store(150)
    store.loader.send([WHOLE, structs.replace(WHOLE, request="i")])
    store.run()
    assert [(event.request, len(event.items)) for event in store.told if isinstance(event, HistorySnapshot)] == [
        ("h", 150),
        ("i", 150),
    ]


def test_the_refusal_of_a_page_is_the_answer() -> None:
    store = Store(500)
    store.loader.send([WHOLE])
    store.step()
    refused = Reply(request="h", failure=Failure(cause="internal", text="no"))
    store.sends(refused)
    assert store.told == [refused]
    assert len(store.asked) == 2


def test_a_history_larger_than_is_kept_ends_with_a_cursor_and_is_counted() -> None:
    store = Store(10_000, most=3 * PAGE * ITEM)
    store.loader.send([WHOLE])
    store.run()
    (answer,) = store.told
    assert isinstance(answer, HistorySnapshot)
    assert (len(answer.items), answer.next_cursor) == (3 * PAGE, str(10_000 - 3 * PAGE))
    assert [entry.kind for entry in store.ledger.entries()] == ["HistorySnapshot"]


def test_an_empty_page_with_a_cursor_ends_the_history() -> None:
    store = Store(0)
    store.loader.send([WHOLE])
    store.sends(HistorySnapshot(request="h", items=(), next_cursor="again"))
    assert len(store.told) == 1
    assert len(store.asked) == 1


@pytest.mark.parametrize("written", [True, False])
def test_no_part_of_a_history_follows_a_lost_connection(written: bool) -> None:
    store = Store(500)
    store.loader.send([WHOLE])
    store.loader.lost("gone", [] if written else [WHOLE])
    assert store.failed == [("gone", [] if written else ["h"])]
    late = HistorySnapshot(request="h", items=(), next_cursor="7")
    store.sends(late)
    assert (store.told, len(store.asked)) == ([late], 1)


def test_a_history_is_read_no_longer_than_its_client_waits_for_it() -> None:
    store = Store(500)
    store.loader.send([WHOLE])
    store.time.passes(Limits().accept_deadline)
    store.step()
    (late,) = store.told  # the page is passed on as it came, and nothing more is asked
    assert isinstance(late, HistorySnapshot)
    assert (late.next_cursor, len(store.asked)) == ("400", 1)
    assert store.time.waiting == []


def test_start_suspend_and_stop_are_passed_to_the_backend() -> None:
    stage = HistoryLoaderStage()
    stage.loader.start()
    assert stage.starts == 1
    for end in (stage.loader.suspend, stage.loader.stop):
        stage.loader.send([submit("r")])
        end()
        assert stage.asked == []
    assert stage.loader.state.id == "s"
