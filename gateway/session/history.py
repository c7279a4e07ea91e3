"""A session's history: ids for a history that has none, what a history adds to the transcript, and pages of it.

A pod's entries have no ids; ours are promised for the life of the session (docs/translation.md, rule 3.1). So `renew`
keeps the ids of what stands unchanged at the beginning of a history that comes again.

A backend may know less of a conversation than the gateway saw: a pod logs no answer that was cancelled, and compacts
its log. So a history of the same conversation only adds to the transcript (docs/translation.md, rule 4.7). `Addition`
does so for a whole history, and for the newest page of one:

    of the history                            in the transcript
    an input                                  is the one with its id, else one of these words, whose run has this answer
    a run that is not there                   is added before the next run that both have, else at the end
    an answer                                 is one text, whose beginning and end are compared with what was seen
    an answer that was seen, or more of it    stays as it was seen: a store may be behind, or divide it at its calls
    an answer that was seen in part           becomes the whole answer, under its id
    an answer that contradicts what was seen  adds its blocks that were not seen, before the end that both have
    a call, result, thought or system item    stays if it is there anywhere: a log may order them otherwise
    anything else                             is added before the next block of its run that both have, else after it

A history that is added twice adds nothing the second time: every run of it is in the transcript then, in its order.

`fold_in` does so for a store that has only messages. Two messages are the same if they have one id, or else one role
and text after the last message that both have. A message that only the store has comes after the last one that both
have, and before the turn of the next. If that turn has an answer that the store corrects, it comes after this answer:
two runs were taken for one.

Items that only the transcript has stay where they are. Each step looks up where a message stands: the cost is linear.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from itertools import accumulate, chain, dropwhile, islice, pairwise, takewhile

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
COMPARED = 8192  # blocks compared in vain in one history (15 ms): from then on only the next run is looked at
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
    if event.rotated and event.compacted and not event.runs:
        own = state.transcript[state.fresh :]
        summed_up = next((n for n, item in enumerate(own) if _near_end(item, event.items) is None), len(own))
        return structs.replace(event, items=tuple(state.transcript), summed_up=state.fresh + summed_up)
    summary = (event.runs[0].first if event.runs else len(event.items)) if event.compacted else 0
    told = event.items[summary:]
    # The input of the first run may stand at the end of the summary.
    items = Addition(state.transcript, new_id).of(_whole_runs(told) if event.rotated else told)
    return structs.replace(event, items=tuple(items), summed_up=_reach(items, told) if event.compacted else 0)


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


class HistoryRun:
    """An input and the items after it. The first run of a history has no input; it may have no items."""

    def __init__(self, items: Sequence[Item]) -> None:
        first = items[0] if items else None
        self.items = items
        self.id, self.asked, self.rest = "", "", items
        if first is not None and is_said(first, "user"):
            self.id, self.asked, self.rest = first.id, first.text, items[1:]
        self.turn = first.turn if first is not None else ""
        self.blocks = answers(items)
        self.answer = "".join(self.blocks)
        self.starts = [*accumulate(map(len, self.blocks), initial=0)][:-1]  # where each block begins in the answer

    def shared(self, told: HistoryRun) -> tuple[int, int]:
        """Return the lengths of the beginning and of the end of the answer of `told` that this answer has, too.

        They are whole blocks, unless one of the two answers is the beginning or the end of the other.
        """
        seen, text = self.answer, told.answer
        if seen.startswith(text) or text.startswith(seen):
            return min(len(seen), len(text)), 0
        if seen.endswith(text) or text.endswith(seen):
            return 0, min(len(seen), len(text))
        begin = next(at for at, block in zip(told.starts, told.blocks, strict=True) if not seen.startswith(block, at))
        end = 0
        for at, block in zip(reversed(told.starts), reversed(told.blocks), strict=True):
            place = at + len(seen) - len(text)
            if min(at, place) < begin or not seen.startswith(block, place):
                break
            if at == begin or _next(self.starts, place) == place:
                end = len(text) - at
        return begin, end


class Addition:
    """The transcript to which a history is added."""

    def __init__(self, transcript: Sequence[Item], new_id: NewId) -> None:
        self._known = _runs(transcript)
        self._new_id = new_id
        self._marks = {_mark(item) for item in transcript if not is_said(item)}
        self._ids = {"", *(item.id for item in transcript if isinstance(item, Message))}

    def of(self, added: Sequence[Item]) -> list[Item]:
        """Return the transcript with the items that only `added` has."""
        told = _runs(added)
        same = _same_runs(told, self._known)
        items = [run.items for run in self._known]
        last, new = -1, list[Item]()
        for number, run in enumerate(told):
            place = same.get(number)
            if place is None:
                turn = self._new_id()
                new += chain.from_iterable(self._fresh(item, turn) for item in run.items)
                continue
            items[place] = self._completed(self._known[place], run)
            if place > last:
                items[place], last, new = [*new, *items[place]], place, []
        return [*chain.from_iterable(items), *new]

    def _completed(self, known: HistoryRun, told: HistoryRun) -> list[Item]:
        """Return the items of a known run with what only `told` has, each before the next block that both have."""
        begin, end = known.shared(told)
        stop = len(told.answer) - end  # the answer of `told` between `begin` and `stop` is missing
        texts = [*known.blocks]
        places = [*(n for n, item in enumerate(known.items) if is_said(item, "assistant")), len(known.items)]
        new: dict[int, list[Item]] = {}  # by the place before which they come
        at = 0
        for item in told.rest:
            text = item.text if is_said(item) else ""
            missing, last = text[max(0, begin - at) : max(0, stop - at)], at + len(text)
            if missing and at < begin:
                texts[-1] += missing
            elif missing and last > stop:
                texts[0] = missing + texts[0]
            elif missing or not is_said(item):
                seen = at if at < begin else len(known.answer) - min(end, len(told.answer) - at)
                new.setdefault(places[bisect_left(known.starts, seen)], []).extend(self._fresh(item, known.turn))
            at = last
        rest = iter(texts)
        items = [structs.replace(item, text=next(rest)) if is_said(item, "assistant") else item for item in known.items]
        return [*chain.from_iterable((*new.get(n, ()), item) for n, item in enumerate(items)), *new.get(len(items), ())]

    def _fresh(self, item: Item, turn: str) -> list[Item]:
        """Return an item to be added to this turn, under an id of its own; nothing if the transcript has it."""
        if not is_said(item) and _mark(item) in self._marks:
            return []
        if not isinstance(item, Message):
            return [structs.replace(item, turn=turn)]
        own = structs.replace(item, id=item.id if item.id not in self._ids else self._new_id(), turn=turn)
        self._ids.add(own.id)
        return [own]


def add_listed(listed: Sequence[Item], transcript: Sequence[Item], new_id: NewId) -> list[Item] | None:
    """Return the transcript with what a list of the same conversation adds to it; None if that is nothing.

    A list may begin inside of a run: an answer without its input has no place among the known ones.
    """
    items = Addition(transcript, new_id).of(_whole_runs(listed))
    return items if items != transcript else None


def _whole_runs(items: Sequence[Item]) -> tuple[Item, ...]:
    """Return the items from the first input on."""
    return tuple(dropwhile(lambda item: not is_said(item, "user"), items))


def without_unstored(event: HistorySnapshot, told: Sequence[Item]) -> HistorySnapshot:
    """Return a history without its last input, if that has no answer and what the backend `told` ends without it.

    The backend was lost before it stored the input. Its client was told that the turn failed, and the model does not
    know the input.
    """
    last = event.items[-1] if event.items else None
    stored = next((item for item in reversed(told) if is_said(item, "user")), None)
    if last is None or stored is None or not is_said(last, "user") or last.id == stored.id or _same(last, stored):
        return event
    return structs.replace(event, items=event.items[:-1], summed_up=min(event.summed_up, len(event.items) - 1))


def _runs(items: Sequence[Item]) -> list[HistoryRun]:
    """Return the runs of a history; the first one is what comes before the first input."""
    begins = [0, *(i for i, item in enumerate(items) if is_said(item, "user")), len(items)]
    return [HistoryRun(items[begin:end]) for begin, end in pairwise(begins)]


def _same_runs(told: Sequence[HistoryRun], known: Sequence[HistoryRun]) -> dict[int, int]:
    """Return the place in `known` of each run of `told` that is there. Both may lack runs.

    Two runs are the same if their inputs have one id. Users repeat their words. So other runs are the same only if
    their inputs have one text, and one of their answers has all of the other.
    Between two such runs, all are the same if all inputs are: a backend may store another answer than was seen.
    Otherwise those next to such a run are the same if one of the two has no answer: it was cancelled, or not stored.
    """
    told_ids = Counter(run.id for run in told if run.id)
    numbers = {run.id: number for number, run in enumerate(told) if told_ids[run.id] == 1}
    same = {0: 0} | {numbers[run.id]: place for place, run in enumerate(known) if run.id in numbers}
    by_id = {*same.values()}
    alike = _RunIndex(known, without=by_id)

    def may_be_one(pair: tuple[int, int]) -> bool:
        one, other = told[pair[0]], known[pair[1]]
        return one.asked == other.asked and not (one.answer and other.answer)

    in_order = [(0, 0)]
    for number, run in enumerate(told[1:], 1):
        after = in_order[-1][1] + 1
        if number not in same and (found := alike.find_run(run, after)) is not None:
            same[number] = found
        if same.get(number, 0) >= after:
            in_order.append((number, same[number]))
    for (number, place), (end, last) in pairwise([*in_order, (len(told), len(known))]):
        some = [n for n in range(number + 1, end) if n not in same]
        others = [n for n in range(place + 1, last) if n not in by_id]
        if [told[n].asked for n in some] == [known[n].asked for n in others]:
            same |= zip(some, others, strict=True)
        for direction in (1, -1):
            next_to = [*takewhile(may_be_one, zip(some[::direction], others[::direction], strict=False))]
            same |= next_to
            some, others = some[len(next_to) :], others[len(next_to) :]
    return same


class _RunIndex:
    """The known runs with an answer, by their input, and by input and answer."""

    def __init__(self, known: Sequence[HistoryRun], without: Container[int]) -> None:
        self._known = known
        self._places: dict[tuple[str, ...], list[int]] = {}
        self._left = COMPARED
        for place, run in enumerate(known):
            if run.answer and place not in without:
                self._places.setdefault((run.asked,), []).append(place)
                self._places.setdefault((run.asked, run.answer), []).append(place)

    def find_run(self, told: HistoryRun, after: int) -> int | None:
        """Return the place from `after` on of a run that has all of this answer, else of one that has a part of it.

        None is returned if there is no such run, or no answer. The order matters: once the part is completed, its run
        has all of the answer, and is found again.
        """
        if not told.answer:
            return None
        alike, equal = (self._places.get(key, []) for key in ((told.asked,), (told.asked, told.answer)))
        first, part = bisect_left(alike, after), None
        for place in alike[first : first + ALIKE]:
            both = sum(self._known[place].shared(told))
            if both == len(told.answer):
                return place
            if part is None and both == len(self._known[place].answer):
                part = place
            self._left -= len(told.blocks)
            if self._left < 0:
                break
        whole = _next(equal, after)
        return part if whole is None else whole


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
    """Give the answers in `gap` from `begin` on the texts of those in `new`, in order.

    The first `unheard` messages of `new` were not heard: they come before the first answer in `gap`, in its turn.
    Return how many items of `gap` come before those that are left in `new`.
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
    newest_first = zip(range(len(state.transcript), 0, -1), reversed(state.transcript), strict=True)
    found = (n for n, item in newest_first if isinstance(item, Message) and item.id == cursor and is_said(item))
    end = next(found, None) if cursor else len(state.transcript)
    if end is None:
        return None
    messages = state.newest_messages(end)
    if cursor:
        next(messages)
    shown = [*islice(messages, limit)]
    more = next(messages, None) is not None
    return HistorySnapshot(request=request, items=tuple(shown), next_cursor=shown[-1].id if more and shown else None)


def answer_page(state: SessionState, command: GetHistory) -> HistorySnapshot | Reply:
    """Return the answer to a request for a page of the transcript."""
    found = page(state, command.request, command.limit or PAGE, command.cursor)
    failure = Failure(cause="invalid", text=f"unknown cursor {command.cursor!r}")
    return found or Reply(request=command.request, failure=failure)
