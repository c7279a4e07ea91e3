"""Each recorded conversation of a backend, played to clients of all dialects, whenever they join.

The first client drives: it says what the recorded client said, as far as its dialect can. Others of all four dialects
join before the first input, in the middle of the longest answer, and behind the last end. All must be shown what the
recording shows, less what the table of pairs declares as lost.
"""

from __future__ import annotations

import pytest
from _pytest.mark.structures import ParameterSet
from msgspec import structs

from tests.pairs.table import must_see
from tests.players.backends import BACKENDS
from tests.players.captures import CAPTURES
from tests.players.clients import Said
from tests.players.playing import DIALECTS, Play, played
from tests.players.readings import Turn

PLAYED = [(backend, number) for backend in BACKENDS for number in CAPTURES[backend] if BACKENDS[backend].plays(number)]
ENDS = {"completed": "an answer ends", "failed": "a failure ends", "cancelled": "a cancel ends"}

# What is being mended at this moment; empty when that has landed.
ROTATED = pytest.mark.xfail(
    strict=False, reason="a rotation behind `status{running}` answers a codewhale client's message"
)
COMPACTED = pytest.mark.xfail(strict=False, reason="a compaction wipes the history that the gateway knows")
OPEN = {("pod", number, "codewhale"): ROTATED for number in ("02", "04", "05", "07", "10")} | {
    ("pod", "09", driver): COMPACTED for driver in DIALECTS
}


def _cases() -> list[ParameterSet]:
    cases = []
    for backend, number in PLAYED:
        for driver in DIALECTS:
            marks = OPEN.get((backend, number, driver), ())
            cases.append(pytest.param(backend, number, driver, marks=marks, id=f"{backend}-{number}-{driver}"))
    return cases


plays = pytest.mark.parametrize(("backend", "number", "driver"), _cases())


@plays
async def test_every_client_is_shown_the_turns_that_were_recorded(backend: str, number: str, driver: str) -> None:
    play = await played(backend, number, driver)
    differences = {}
    for (when, dialect), shown in play.shown.items():
        due = [_through(turn, dialect, backend, when) for turn in _due(play, when, dialect)]
        got = shown.turns if when == "driver" else [turn for turn in shown.turns if not turn.empty]
        if dialect == "pando" and when == "middle" and due and got:
            due, got = _without_head(due, got)
        if dialect == "pando":
            got = [structs.replace(turn, ours=False) for turn in got]
        if due != got:
            differences[when, dialect] = {"recorded": due, "shown": got}
    assert differences == {}


@plays
async def test_every_client_is_told_who_said_what_in_the_order_in_which_it_was_said(
    backend: str, number: str, driver: str
) -> None:
    play = await played(backend, number, driver)
    due = _joined(play.history)
    told = {key: _joined(shown.history) for key, shown in play.shown.items()}
    other = {
        key: history
        for key, history in told.items()
        if history != (due if key[1] != "pod" or play.kept is None else _joined(play.kept))
    }
    assert other == {}, f"recorded: {due}"


@plays
async def test_no_client_is_told_anything_in_an_illegal_order(backend: str, number: str, driver: str) -> None:
    play = await played(backend, number, driver)
    assert {key: shown.illegal for key, shown in play.shown.items() if shown.illegal} == {}


def test_the_recordings_show_texts_thoughts_calls_results_and_ends() -> None:
    turns = [turn for backend, number in PLAYED for turn in BACKENDS[backend](number).turns()]
    assert {turn.end for turn in turns} >= {"completed", "cancelled", ""}
    assert sum(len(turn.calls) for turn in turns) >= 4
    assert any(turn.thought for turn in turns)
    assert any(turn.results for turn in turns)


# -- what is declared as lost -------------------------------------------------------------------------


def _due(play: Play, when: str, dialect: str) -> list[Turn]:
    """Return the turns of a recording that a client must be shown live, from when it joined."""
    if dialect == "codewhale":  # nothing between requests: the history tells of others' turns
        return [turn for turn in play.turns if when == "driver" and turn.ours]
    if when == "driver":
        return play.turns
    first = {"before": 0, "middle": play.middle, "after": len(play.turns)}[when]
    open_now = [turn for turn in play.turns[first:] if not turn.empty]
    if when == "after" and dialect != "pando":
        open_now = [turn for turn in play.turns[-1:] if not turn.end]
    return open_now


def _through(turn: Turn, client: str, backend: str, when: str) -> Turn:
    """Return a turn as a client of this dialect can see it."""
    return structs.replace(
        turn,
        thought=turn.thought if must_see("reasoning", client, backend) == "whole" else "",
        end=must_see(ENDS[turn.end], client, backend) if turn.end else "",
        ours=turn.ours and when == "driver" and client != "pando",
    )


def _without_head(due: list[Turn], got: list[Turn]) -> tuple[list[Turn], list[Turn]]:
    """Leave out of the first turn what was published before somebody subscribed; what he got is the end of it."""
    first, seen = due[0], got[0]
    calls, results = len(first.calls) - len(seen.calls), len(first.results) - len(seen.results)
    kept = first.text[len(first.text) - len(seen.text) :] if seen.text else ""
    return [
        structs.replace(first, text=kept, calls=first.calls[calls:], results=first.results[results:]),
        *due[1:],
    ], got


def _joined(history: list[Said]) -> list[Said]:
    """Join what one of them said in a row in one turn: a pod's blocks are one message elsewhere."""
    joined: list[Said] = []
    for who, text in history:
        if joined and joined[-1][0] == who == "assistant":
            joined[-1] = who, joined[-1][1] + text
        elif text:
            joined.append((who, text))
    return joined
