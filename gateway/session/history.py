"""A session's history: ids for a history that has none, what a history adds to the transcript, and pages of it.

A pod's entries have no ids; ours are promised for the life of the session (docs/translation.md, rule 3.1). So `renew`
keeps the ids of what stands unchanged at the beginning of a history that comes again.

A backend may know less of a conversation than the gateway saw: a pod logs no answer that was cancelled, and compacts
its log. So a history of the same conversation only adds to the transcript (docs/translation.md, rule 4.7). `Addition`
does so for a whole history, and for the newest page of one:

    of the history                            in the transcript
    a message that is there                   stays as it was seen, with its id and time
    the beginning of an answer that is there  stays as it was seen: a store may be behind
    an answer that was seen in part           becomes the whole answer, under its id; its blocks may be one there
    the next part of an answer seen as one    stays as it was seen: a store may divide it at its calls
    a call, result, thought or system item    stays if it is there anywhere: a log may order them otherwise
    an input                                  is one of these words whose run has this answer, or a part of it
    a run that is not there                   is added before the next run that both have, else at the end
    anything else                             is added before the next message of its run that both have, else after it

`fold_in` does so for a store that has only messages. Two messages are the same if they have one id, or else one role
and text after the last message that both have. A message that only the store has comes after the last one that both
have, and before the turn of the next. If that turn has an answer that the store corrects, it comes after this answer:
two runs were taken for one.

Items that only the transcript has stay where they are. Each step looks up where a message stands: the cost is linear.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain, dropwhile, islice, pairwise, takewhile
from typing import NamedTuple

from msgspec import structs

from dragoman.mappings.canonical import SessionState
from dragoman.mappings.canonical.commands import GetHistory
from dragoman.mappings.canonical.events import HistorySnapshot, Reply
from dragoman.mappings.canonical.values import Failure, Item, Message, Reasoning, ToolCall, answers, is_said
from dragoman.mappings.dialect import NewId
from dragoman.mappings.in_words import without_runs

Mark = tuple[type, str, str]

PAGE = 50  # messages of a page, if the client does not say how many: docs/dialects/smooth.md, section 5
ALIKE = 64  # runs of one input among which the one with this answer is looked for
TAIL = 8  # items: the input being worked on stands at a history's end, with what it pulled in


def renew(event: HistorySnapshot, state: SessionState, new_id: NewId) -> HistorySnapshot:
    """Return the history with ids and turns: those of `state` as far as both begin alike, fresh ones from there.

    Messages of user and assistant are compared by themselves: a log may order calls and results otherwise.

    A rotated history may lack the input that is being worked on. Then the input is kept after it.
    """
    if event.conversation and event.conversation == state.conversation and state.transcript:
        return _added(event, state, new_id)
    items: list[Item] = []
    turn = ""
    everything, spoken = _Prefix(state.transcript), _Prefix([i for i in state.transcript if is_said(i)])
    for item in event.items:
        old = everything.next(item)
        if is_said(item):
            old = spoken.next(item)
        if old is not None:
            items.append(old)
            turn = old.turn
            continue
        if isinstance(item, Message):
            if item.role == "user":
                turn = new_id()
            items.append(structs.replace(item, id=item.id or new_id(), turn=turn))
        else:
            items.append(structs.replace(item, turn=turn))
    if event.rotated:
        for own in state.transcript[state.fresh :]:
            at = _near_end(own, items)
            if at is None:
                items.append(own)
            else:
                items[at] = own
    return structs.replace(event, items=tuple(items))


def _near_end(own: Item, items: Sequence[Item]) -> int | None:
    """Return where an item of the input that is being worked on stands in a history, None if nowhere."""
    return next((i for i in reversed(range(max(0, len(items) - TAIL), len(items))) if _same(own, items[i])), None)


def _added(event: HistorySnapshot, state: SessionState, new_id: NewId) -> HistorySnapshot:
    """Return the transcript with what a history of the same conversation adds to it."""
    if event.rotated and event.compacted:
        own = state.transcript[state.fresh :]
        summed_up = next((n for n, item in enumerate(own) if _near_end(item, event.items) is None), len(own))
        return structs.replace(event, items=tuple(state.transcript), summed_up=state.fresh + summed_up)
    summary = (event.runs[0].first if event.runs else len(event.items)) if event.compacted else 0
    items, summed_up = Addition(state.transcript, new_id).of(event.items[summary:])
    return structs.replace(event, items=tuple(items), summed_up=summed_up if event.compacted else 0)


class _Prefix:
    """Compares new items with known ones, one by one, until two of them differ."""

    def __init__(self, items: list[Item]) -> None:
        self._rest = iter(items)

    def next(self, item: Item) -> Item | None:
        """Return the known item that equals `item`, if all before it were known too."""
        old = next(self._rest, None)
        if old is not None and _same(old, item):
            return old
        self._rest = iter(())
        return None


def _same(old: Item, new: Item) -> bool:
    if isinstance(old, Message) and isinstance(new, Message):
        return old.role == new.role and old.text == new.text
    return type(old) is type(new) and structs.replace(new, at=old.at, turn=old.turn, ext=old.ext) == old


# -- a whole history of the same conversation -----------------------------------------------------------


class Addition:
    """The transcript to which a history is added."""

    def __init__(self, transcript: Sequence[Item], new_id: NewId) -> None:
        self._known = list(transcript)
        self._new_id = new_id
        self._places: dict[Mark, list[int]] = {}
        for i, item in enumerate(self._known):
            self._places.setdefault(_mark(item), []).append(i)
        self._texts = {i: text for i, item in enumerate(self._known) for text in answers([item])}
        self._answers = list(self._texts)
        self._runs = _runs(self._known)
        self._inputs = [run.at for run in self._runs]
        self._at = 0  # items before this index were compared
        self._told = 0  # characters of the last known answer that were found; the history may have more of them
        self._copied = 0  # items before this index are in the result
        self._result: list[Item] = []
        self._waiting: list[Item] = []  # new items that come after further known ones

    def of(self, added: Sequence[Item]) -> tuple[list[Item], int]:
        """Return the transcript with the items that only `added` has, and how many items `added` reaches to.

        Items after those are in the transcript alone.
        """
        turn, is_new_run = "", False
        inputs = _same_inputs(_runs(added), self._runs)
        for i, item in enumerate(added):
            is_input = is_said(item, "user")
            if (not is_said(item) and _mark(item) in self._places) or self._continues_answer(item):
                continue
            if is_input and not is_new_run:
                self._copy_up_to(self._end_of_run())
            place = inputs.get(i) if is_input or is_new_run else self._find_answer(item)
            if place is not None:
                self._copy_up_to(place)
                is_new_run, turn, self._at = False, self._known[place].turn, place + 1
                continue
            if is_input:
                turn, is_new_run = self._new_id(), True
            self._waiting.append(self._fresh(item, turn))
        self._copy_up_to(len(self._known) if is_new_run else self._end_of_run())
        self._copy_up_to(len(self._known))
        return self._result, _reach(self._result, added)

    def _copy_up_to(self, place: int) -> None:
        """Add the known items before this index to the result, then the new ones that wait for that."""
        self._result += [*self._known[self._copied : place], *self._waiting]
        self._waiting, self._copied = [], place

    def _continues_answer(self, item: Item) -> bool:
        """Return True for the next part of an answer that was seen as one; what was not seen of it is added to it."""
        if not is_said(item):
            return False
        told, self._told = self._told, 0
        if not told or item.role != "assistant":
            return False
        last = self._at - 1
        seen = self._texts[last]
        rest = len(seen) - told
        if not seen.startswith(item.text[:rest], told):
            return False
        if len(item.text) < rest:
            self._told = told + len(item.text)
        else:
            self._known[last] = structs.replace(self._known[last], text=seen + item.text[rest:])
        return True

    def _end_of_run(self) -> int:
        """Return the index of the next input after the items that were compared, else the end."""
        end = _next(self._inputs, self._at)
        return len(self._known) if end is None else end

    def _find_answer(self, item: Item) -> int | None:
        """Return the index of an answer after the items that were compared, None if it is not there."""
        if not isinstance(item, Message) or item.role != "assistant":
            return None
        found = _next(self._places.get(_mark(item), ()), self._at)
        end = self._end_of_run()
        return found if found is not None and found < end else self._find_parts(item, end)

    def _find_parts(self, item: Message, end: int) -> int | None:
        """Return the index of the last block in which an answer was seen; what the blocks lack is added to it."""
        last, text, at = None, item.text, 0
        while at < len(text) and (place := _next(self._answers, self._at)) is not None and place < end:
            seen = self._texts[place]
            if last is None and not text.startswith(seen) and text.endswith(seen):  # joined in its middle
                self._known[place] = structs.replace(self._known[place], text=text)
                return place
            if not (text.startswith(seen, at) or seen.startswith(text[at:])):
                break
            self._told = len(text) - at if len(text) - at < len(seen) else 0
            last, at = place, at + len(seen)
            self._at = place + 1
        if last is not None and at < len(text):
            self._known[last] = structs.replace(self._known[last], text=self._texts[last] + text[at:])
        return last

    def _fresh(self, item: Item, turn: str) -> Item:
        if isinstance(item, Message):
            return structs.replace(item, id=item.id or self._new_id(), turn=turn)
        return structs.replace(item, turn=turn)


def add_listed(listed: Sequence[Item], transcript: Sequence[Item], new_id: NewId) -> list[Item] | None:
    """Return the transcript with what a list of the same conversation adds to it; None if that is nothing.

    A list may begin inside of a run: an answer without its input has no place among the known ones.
    """
    whole_runs = [*dropwhile(lambda item: not is_said(item, "user"), listed)]
    items, _ = Addition(transcript, new_id).of(whole_runs)
    return items if items != transcript else None


class RunPlace(NamedTuple):
    """A run: the index, the id and the text of its input, and its whole answer."""

    at: int
    id: str
    input: str
    answer: str


def _runs(items: Sequence[Item]) -> list[RunPlace]:
    inputs = [(i, item) for i, item in enumerate(items) if is_said(item, "user")]
    ends = [*(i for i, _ in inputs[1:]), len(items)]
    return [
        RunPlace(i, item.id, item.text, "".join(answers(items[i:end])))
        for (i, item), end in zip(inputs, ends, strict=False)
    ]


def _same_inputs(told: Sequence[RunPlace], known: Sequence[RunPlace]) -> dict[int, int]:
    """Return the index of each input of `told` that is in `known`, with its index there. Both may lack runs.

    Users repeat their words. So two runs are one if their inputs are the same, and one answer is a part of the other.
    Between two such runs, all are the same if all inputs are: a backend may store another answer than was seen.
    Otherwise only runs without an answer, right before such a run, are the same: a list may begin with them.
    """
    theirs = {run.id for run in told if run.id}
    by_id = {run.id: place for place, run in enumerate(known) if run.id in theirs}
    alike: dict[str, list[int]] = {}
    for place, run in enumerate(known):
        if run.id not in by_id:
            alike.setdefault(run.input, []).append(place)
    pairs = [(-1, -1)]
    for number, run in enumerate(told):
        after = pairs[-1][1] + 1
        found = by_id[run.id] if run.id in by_id else _find_run(run.answer, alike.get(run.input, []), known, after)
        if found is not None and found >= after:
            pairs.append((number, found))
    same = {told[number].at: known[place].at for number, place in pairs[1:]}
    for (number, place), (end, last) in pairwise([*pairs, (len(told), len(known))]):
        some, others = told[number + 1 : end], known[place + 1 : last]
        all_same = [run.input for run in some] == [run.input for run in others]
        for one, other in zip(reversed(some), reversed(others), strict=False):
            if not all_same and (one.input != other.input or (one.answer and other.answer)):
                break
            same[one.at] = other.at
    return same


def _find_run(answer: str, places: Sequence[int], known: Sequence[RunPlace], after: int) -> int | None:
    """Return the place of a run with this answer, or a part of it, among `places` from `after` on; None if not there.

    One with the whole answer is preferred. A run without an answer is only the very next one.
    """
    first = bisect_left(places, after)
    ahead = places[first : first + ALIKE]
    equal = (place for place in ahead if answer and known[place].answer == answer)
    parts = (place for place in ahead if answer and known[place].answer and _may_be_one(known[place].answer, answer))
    empty = (place for place in ahead[:1] if place == after and not (answer and known[place].answer))
    return next(chain(equal, parts, empty), None)


def _may_be_one(seen: str, told: str) -> bool:
    """Return True if one of two answers is a part of the other: the whole, the beginning or the end of it."""
    return told.startswith(seen) or told.endswith(seen) or seen.startswith(told)


def _mark(item: Item) -> Mark:
    """Return a key that is the same for two items that count as one."""
    if isinstance(item, Message):
        return Message, item.role, item.text
    if isinstance(item, Reasoning):
        return Reasoning, "", item.text
    return type(item), item.call, item.name if isinstance(item, ToolCall) else ""


def _reach(items: Sequence[Item], added: Sequence[Item]) -> int:
    """Return how many items there are up to the last one of `added`; all if there is none of them."""
    marks = {_mark(item) for item in added}
    return next((n for n in range(len(items), 0, -1) if _mark(items[n - 1]) in marks), len(items))


def _next(places: Sequence[int], at: int) -> int | None:
    """Return the first of these indices that is not before `at`."""
    i = bisect_left(places, at)
    return places[i] if i < len(places) else None


# -- a store that has only messages ---------------------------------------------------------------------


def fold_in(listed: Sequence[Item], transcript: Sequence[Item], new_id: NewId) -> list[Item] | None:
    """Return the transcript with the messages that only a store has; None if there are none."""
    merged: list[Item] = []
    new: list[Message] = []
    at, turn = 0, ""
    for message, place in [*_placed(listed, transcript), (None, len(transcript))]:
        if place is None:
            assert message is not None  # noqa: S101  # the last pair has a place
            new.append(structs.replace(message, id=message.id or new_id()))
            continue
        gap = list(transcript[at:place])
        corrected = _correct(gap, new)
        begin = max(corrected, _start_of_turn(gap, transcript[place] if message is not None else None))
        merged += gap[:begin]
        for one in new:
            turn = new_id() if one.role == "user" else turn
            merged.append(structs.replace(one, turn=turn))
        merged += gap[begin:]
        new = []
        if message is not None:
            merged.append(transcript[place])
            turn = transcript[place].turn
        at = place + 1
    return merged if merged != list(transcript) else None


def _placed(listed: Sequence[Item], transcript: Sequence[Item]) -> Iterator[tuple[Message, int | None]]:
    """Yield each message with its index in the transcript, None if it is not there.

    A message that the transcript has before the last one that both have is left out: it stays where clients saw it.
    """
    messages = [item for item in listed if isinstance(item, Message)]
    ids = {message.id for message in messages}
    by_id: dict[str, int] = {}
    alike: dict[tuple[str, str], list[int]] = {}
    for i, item in enumerate(transcript):
        if isinstance(item, Message) and item.id and item.id in ids:
            by_id[item.id] = i
        elif isinstance(item, Message):
            alike.setdefault((item.role, item.text), []).append(i)
    at = 0
    for message in messages:
        place = by_id.get(message.id)
        if place is not None and place < at:
            continue
        if place is None:
            place = _next(alike.get((message.role, message.text), ()), at)
        at = at if place is None else place + 1
        yield message, place


def _start_of_turn(gap: Sequence[Item], known: Item | None) -> int:
    """Return the index in `gap` at which the turn of the known message after it begins; its end if there is none."""
    begin = len(gap)
    while known is not None and known.turn and begin and gap[begin - 1].turn == known.turn:
        begin -= 1
    return begin


def _correct(gap: list[Item], new: list[Message]) -> int:
    """Correct the answers in `gap` by the text of the store; return how many of its items come before those in `new`.

    Two answers are the same if no input is between them: then the store contradicts what was streamed, and is right.
    What is not to be added is removed from `new`.
    """
    stored = [*takewhile(lambda message: message.role == "assistant", new)]
    asked = max((i for i, item in enumerate(gap) if is_said(item, "user")), default=0)
    text = "".join(message.text for message in stored)
    rest = without_runs(text, answers(gap[:asked]))
    heard = answers(gap[asked:])
    if heard and len(stored) < len(new) and "".join(answers(new)) == "".join(heard):
        # The store has inputs between the parts of what was heard: its answers take the place of what was heard.
        place = _first_answer(gap, asked)
        gap[place:] = [item for item in gap[place:] if not is_said(item, "assistant")]
        return place
    if (heard or asked) and rest == "".join(heard):
        # A store may join the blocks of an answer, as a gateway in the place of a pando does: nothing is corrected.
        del new[: len(stored)]
        return 0
    if asked and not heard and rest != text:
        # Such a gateway stores neither its questions in words nor their answers: only the text after those is added.
        new[: len(stored)] = [structs.replace(stored[-1], text=rest)]
        return 0
    unheard = max(0, len(stored) - len(heard)) if heard and text.endswith(heard[-1]) else 0
    return _replace_answers(gap, new, asked if heard else 0, unheard)


def _replace_answers(gap: list[Item], new: list[Message], begin: int, unheard: int) -> int:
    """Give the answers in `gap` from `begin` on the texts of those in `new`, in order; return as `_correct` does.

    The first `unheard` of these were not heard: they come before the first answer in `gap`, in its turn.
    """
    corrected = 0
    for i, item in enumerate(gap[begin:], begin):
        if unheard >= len(new) or new[unheard].role != "assistant":
            break
        if is_said(item, "assistant"):
            gap[i] = structs.replace(item, text=new.pop(unheard).text)
            corrected = i + 1
    if unheard:
        place = _first_answer(gap, begin)
        gap[place:place] = [structs.replace(answer, turn=gap[place].turn) for answer in new[:unheard]]
        del new[:unheard]
    return corrected + unheard


def _first_answer(items: Sequence[Item], begin: int) -> int:
    """Return the index of the first answer among the items from `begin` on; there is one."""
    return next(i for i, item in enumerate(items[begin:], begin) if is_said(item, "assistant"))


# -- pages ----------------------------------------------------------------------------------------------


def page(state: SessionState, request: str, limit: int, cursor: str) -> HistorySnapshot | None:
    """Return messages of user and assistant, newest first, before the message `cursor`; None if it is unknown."""
    messages = state.newest_messages()
    if cursor and not any(message.id == cursor for message in messages):
        return None
    shown = [*islice(messages, limit)]
    more = next(messages, None) is not None
    return HistorySnapshot(request=request, items=tuple(shown), next_cursor=shown[-1].id if more and shown else None)


def answer_page(state: SessionState, command: GetHistory) -> HistorySnapshot | Reply:
    """Return the answer to a request for a page of the transcript."""
    found = page(state, command.request, command.limit or PAGE, command.cursor)
    failure = Failure(cause="invalid", text=f"unknown cursor {command.cursor!r}")
    return found or Reply(request=command.request, failure=failure)
