"""The known messages of one session, from our inputs or from publications (docs/translation.md, rule 4.7).

A list of the primary's store is compared with them. A user's message is new if its id is unknown and no client of ours
sent its text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

from msgspec.structs import replace

from dragoman.mappings.canonical import Event, events
from dragoman.mappings.canonical.values import Message, Text
from dragoman.mappings.pando.translator.output import StreamedOutput
from dragoman.mappings.pando.translator.run_input import RunInput
from dragoman.mappings.pando.vocabulary import given

INPUTS_MAX = 64  # inputs that no list has contained yet: the end of a successful turn clears them
ECHOES_MAX = 64  # our inputs whose echo may still come; released primaries send no echo
IDS_MAX = 100_000  # ids of messages that were published or listed since the last turn ended, about 13 MB
ID_MAX = 256  # characters of an id that is kept: seven times the length of a UUID


class KnownMessages:
    """The known messages of one session; `ids` are those of messages that were listed or published."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self.unanswered = ""  # the id of the last stored input, if the store had no answer to it after the last turn
        self.waiting = ""
        """The id of the last stored input, if it had no answer when the store was read between two turns."""
        self._listed = False  # the store was read at least once
        self._inputs: list[int] = []  # hashes of users' inputs that were not seen in the store yet
        self._echoes: list[int] = []  # hashes, because an input may have megabytes

    def note_sent(self, text: str) -> None:
        """Note an input of ours, so that its echo is not mistaken for another client's input."""
        self._echoes = [*self._echoes[1 - ECHOES_MAX :], hash(text)]
        self.note_input(text)

    def take_echo(self, text: str) -> bool:
        """Return True if a published input is the echo of one of ours; each is matched once."""
        if hash(text) not in self._echoes:
            return False
        self._echoes.remove(hash(text))
        return True

    def note_input(self, text: str) -> None:
        """Note a user's input, which the store will have under an id that we do not know yet."""
        self._inputs = [*self._inputs[1 - INPUTS_MAX :], hash(text)]

    def note_published(self, message: Message) -> None:
        """Note a user's message that the primary published."""
        if message.id:
            self._remember([message.id])
        self.note_input(message.text)

    def forget_input(self, text: str) -> None:
        """Remove an input that the primary did not accept."""
        for known in (self._inputs, self._echoes):
            if hash(text) in known:
                known.remove(hash(text))

    def note_listed(self, listed: Sequence[Message]) -> None:
        """Note the messages of a list that may be only a part of the store."""
        self._listed = True
        self._remember(message.id for message in listed)
        self.waiting = listed[-1].id if listed and listed[-1].role == "user" else ""

    def _remember(self, ids: Iterable[str]) -> None:
        """Add ids of at most ID_MAX characters, unless IDS_MAX are known: a turn may have no end."""
        if len(self.ids) < IDS_MAX:
            self.ids.update(one for one in ids if len(one) <= ID_MAX)

    def note_whole_store(self, listed: tuple[Message, ...]) -> None:
        """Note the messages of the complete store at the end of a turn."""
        self.unanswered, self.waiting = "" if self.text_of_turn(listed) else _last_input(listed), ""
        self._listed = True
        self.ids = {message.id for message in listed}
        self._inputs.clear()

    @property
    def answered(self) -> set[str]:
        """The ids of messages that cannot be the input of the next run."""
        return self.ids - {self.waiting}

    def missed_inputs(self, listed: Sequence[Message], own: str | None = None) -> list[events.MessageAppended]:
        """Return events for users' messages that were neither sent through us nor published.

        `own` is our input in the open turn. A primary may store it with added context, so its text can differ.
        """
        found = []
        for message in listed:
            if message.role != "user" or message.id in self.ids:
                continue
            if hash(message.text) in self._inputs:
                self._inputs.remove(hash(message.text))
            else:
                found.append(message)
        if found and own is not None and hash(own) in self._inputs and own in found[-1].text:
            self._inputs.remove(hash(own))
            found.pop()
        return [events.MessageAppended(message=replace(m, segments=(Text(text=m.text),))) for m in found]

    def missing_events(self, listed: tuple[Message, ...], input: RunInput, output: StreamedOutput) -> list[Event]:
        """Return events for the content of a turn in the store that was not published, or a Gap if the two differ.

        See docs/translation.md, rule 3.7.
        """
        stored, continues = self.text_of_turn(listed), self.continues(listed)
        return [*self.missed_inputs(listed, input.ours), *output.rest(stored, continues=continues)]

    def answers_of_turn(self, listed: tuple[Message, ...]) -> list[Message]:
        """Return the assistant's messages of the open turn: those after the last input that were not known before."""
        return [m for m in listed[len(up_to_input(listed)) :] if m.role == "assistant" and m.id not in self.ids]

    def without_failure(self, listed: tuple[Message, ...], why: str, output: StreamedOutput) -> tuple[Message, ...]:
        """Return the list without answers of the open turn that only repeat why it failed.

        A primary never published those: its own backend stores them, as the smooth server in Rust does.
        """
        if not why or (output.length and output.is_within(self.text_of_turn(listed))):
            return listed
        repeated = {id(answer) for answer in self.answers_of_turn(listed) if why in answer.text}
        return tuple([one for one in listed if id(one) not in repeated])

    def text_of_turn(self, listed: tuple[Message, ...]) -> str:
        """Return the stored text of the open turn."""
        return "".join(message.text for message in self.answers_of_turn(listed))

    def continues(self, listed: tuple[Message, ...]) -> bool:
        """Return True if the open turn continues the answer of the last one: the store has no input between them."""
        return bool(self.unanswered) and self.unanswered == _last_input(listed)

    def is_answered(self, rows: tuple[Message, ...]) -> bool:
        """Return True if the last row of the store is an answer of the open turn, with text."""
        return bool(rows) and bool(rows[-1].text) and any(answer is rows[-1] for answer in self.answers_of_turn(rows))

    def may_be_over(self, rows: tuple[Message, ...], output: StreamedOutput) -> bool:
        """Return True if the stored rows look like a turn that has ended, also if a tool call of its output is open.

        A primary stores a call in the row of the text before it, and begins another row after the result. So the call
        is over if nothing of the last row was published, and everything that was is in earlier rows of the turn.
        """
        before = self.answers_of_turn(rows)[:-1]
        is_later = bool(before) and output.is_within("".join(message.text for message in before))
        return self.is_answered(rows) and (is_later or not output.calls)

    def may_call(self, rows: tuple[Message, ...], output: StreamedOutput) -> bool:
        """Return True if the last row, an answer of the open turn, may have a call that is published when it ends.

        All stored text was published. The answer may have no text.
        """
        answers = self.answers_of_turn(rows)
        return bool(answers) and answers[-1] is rows[-1] and output.is_all_of(self.text_of_turn(rows))

    def up_to_run(self, listed: tuple[Message, ...], runs: int, text: str) -> tuple[Message, ...]:
        """Return the messages up to the input of the first of the last `runs` runs, which published `text` so far.

        Inputs before it that are not known had runs without any publication. The store may also have later runs, of
        which nothing was published yet. So if a stored answer begins with `text`, the run is that of this answer.
        """
        inputs = [i for i, message in enumerate(listed) if message.role == "user"]
        answered = self.answered  # a copy
        new = [i for i in inputs if listed[i].id not in answered]
        if not new:
            return up_to_input(listed)
        begin = max(new[0], inputs[-max(1, min(runs, len(inputs)))])
        agreeing = (i for i in reversed(new) if i <= begin and text and _answer_to(listed, i).startswith(text))
        return listed[: next(agreeing, begin) + 1]

    def before_run(
        self, listed: tuple[Message, ...], input: Message | None, runs: int, text: str
    ) -> tuple[Message, ...]:
        """Like `up_to_run`, but without the input of the run, if this input is new.

        The store may have been read before the primary had stored `input`, the input that it published.
        """
        if input is not None and input.id:
            return tuple(takewhile(lambda message: message.id != input.id, listed))
        run = self.up_to_run(listed, runs, text)
        return run if not run or run[-1].id in self.ids else run[:-1]

    def of_run(self, listed: tuple[Message, ...], input: RunInput, later: int) -> tuple[Message, ...]:
        """Return the messages up to the end of the run that an input began.

        If neither its id nor its text is known, the inputs of `later` runs that follow it are left out.
        """
        inputs = [i for i, message in enumerate(listed) if message.role == "user"]
        new = [i for i in inputs if listed[i].id not in self.ids]
        begin = next((i for i in inputs if input.id and listed[i].id == input.id), None)
        if begin is None and input.ours is not None:
            ours = [i for i in new if input.ours in listed[i].text]
            begin = next((i for i in ours if input.ours == listed[i].text), ours[0] if ours else None)
        if begin is None and new and later:
            begin = max(new[0], inputs[-min(later + 1, len(inputs))])
        end = next((i for i in inputs if begin is not None and i > begin), len(listed))
        return listed[:end]

    def of_broken_run(self, listed: tuple[Message, ...], input: RunInput, later: int) -> tuple[Message, ...]:
        """Return the messages up to the end of a run that has probably ended: each new input is of another run."""
        if not input.is_old:
            return self.of_run(listed, input, later)
        return tuple(takewhile(lambda message: message.role != "user" or message.id in self.ids, listed))

    def missed_events(self, listed: tuple[Message, ...]) -> list[Event]:
        """Return events for stored messages outside of a run that were not published.

        New inputs are MessageAppended events. If other messages are new too, a HistorySnapshot has all messages but
        a new input at the end. That is an event of its own, because it begins a run.
        """
        whole = not self._listed or any(m.role != "user" and m.id not in self.ids for m in listed)
        missed = self.missed_inputs(listed)
        self.note_listed(listed)
        if not whole:
            return [*missed]
        begun = [event for event in missed if event.message.id == listed[-1].id]
        before = listed[: len(listed) - len(begun)]
        return [*([events.HistorySnapshot(items=before)] if before else []), *begun]


def has_results(rows: Sequence[Message]) -> bool:
    """Return True if the last row of the store has the results of tool calls, so none of them is open.

    A primary stores them once all are known, and the row of its next answer right after that.
    """
    return bool(rows) and given(rows[-1].ext, "role", str, "") == "tool"


def _answer_to(listed: tuple[Message, ...], input: int) -> str:
    """Return the stored text of the run that the message at the index `input` began."""
    behind = map(listed.__getitem__, range(input + 1, len(listed)))  # no copy: there may be many inputs
    return "".join(one.text for one in takewhile(lambda one: one.role != "user", behind))


def _last_input(listed: tuple[Message, ...]) -> str:
    """Return the id of the last user's input, "" if there is none."""
    return next((message.id for message in reversed(listed) if message.role == "user"), "")


def up_to_input(listed: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the messages up to the last user's input, without its answer, which may be incomplete."""
    last = max((i for i, message in enumerate(listed) if message.role == "user"), default=-1)
    return listed[: last + 1]
