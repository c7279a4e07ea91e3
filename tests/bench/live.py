"""The whole gateway as a user starts it, under the load of load.c, interleaved with its peers.

Each part is a table of cases: what is played, and through which program. A round plays every case once, every second
round in the opposite order.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from statistics import median

from msgspec import Struct, structs

from tests.bench import bridges
from tests.bench.load import Bridge, Load, Result, run
from tests.bench.text import Figure, Report, spread
from tests.pairs.table import PAIRS

OURS, BARE, WEBSOCKETS, AIOHTTP = "dragoman", "bare bridge", "naive websockets", "naive aiohttp"
RELAY, SOCAT = "relay in C", "socat"
WINDOW = 0.5  # seconds for which all turns must be open at once, so that there is something to measure
LONGER = 4  # attempts, each with turns of twice the length


class Case(Struct, frozen=True, kw_only=True):
    """A load through a program."""

    what: str
    program: str
    load: Load
    bridge: Bridge
    separate: bool = False  # a backend address for each session
    directory: bool = False  # the addresses are a directory of pods


Rounds = list[dict[tuple[str, str], Result]]
"""The results of each round, by what was played and through which program."""


def measured(part: str, cases: list[Case], rounds: int) -> Rounds:
    """Play every case in every round."""
    taken: Rounds = []
    for number in range(rounds):
        results = {}
        for case in cases[:: -1 if number % 2 else 1]:
            print(
                f"{part}, round {number + 1} of {rounds}: {case.program}, {case.what} ...", file=sys.stderr, flush=True
            )
            results[case.what, case.program] = _played(case)
        taken.append(results)
    return taken


def _played(case: Case) -> Result:
    """Play a case; again with longer turns if the first ones ended soon after, or before, the last ones began."""
    load = case.load
    for _ in range(LONGER):
        result = run(load, case.bridge, separate=case.separate, directory=case.directory)
        if not load.rate or result.seconds >= WINDOW:
            return result
        load = structs.replace(load, tokens=2 * load.tokens)
    raise SystemExit(f"error: {case.program} opens {load.sessions} sessions too slowly on this machine: {case.what}")


def ratios(taken: Rounds, what: str, peer: str, value: Callable[[Result], float], ours: str = OURS) -> list[float]:
    """Return the ratio of a value to that of a peer, for each round."""
    return [value(results[what, ours]) / value(results[what, peer]) for results in taken]


def cost(result: Result) -> float:
    return result.cost


def rate(result: Result) -> float:
    return result.rate


def most(
    name: str, title: str, values: list[float], goal: float = 0.0, stretch: float = 0.0, unit: str = "x"
) -> Figure:
    """Return a figure that must not be above its goal."""
    return Figure(id=name, title=title, rounds=values, goal=goal, stretch=stretch, at_most=True, unit=unit)


def least(name: str, title: str, values: list[float], goal: float = 0.0, stretch: float = 0.0) -> Figure:
    """Return a figure that must not be below its goal."""
    return Figure(id=name, title=title, rounds=values, goal=goal, stretch=stretch)


def rows_of(taken: Rounds) -> list[list[str]]:
    """Return what was measured of each case; latencies only where there was a rate."""
    rows = [["program", "what", "events/s", "CPU us/event", "p50 us", "p99 us", "p99 with openings", "worst ms"]]
    for what, program in sorted(taken[0], key=lambda key: key[0]):
        of = [results[what, program] for results in taken]
        timed = [[one.p50 for one in of], [one.p99 for one in of], [one.p99_all for one in of]]
        shown = [spread(values, "{:,.0f}") for values in timed] if of[0].p50 else ["", "", ""]
        worst = spread([one.worst / 1000 for one in of], "{:,.1f}") if of[0].p50 else ""
        rates, costs = spread([one.rate for one in of], "{:,.0f}"), spread([one.cost * 1e6 for one in of])
        rows.append([program, what, rates, costs, *shown, worst])
    return rows


# -- steady -----------------------------------------------------------------------------------------------------

FROM_POD, FROM_SMOOTH = "pod to smooth", "smooth to pod"
SHAPES = ((1000, 15), (500, 30))
UNLOADED = "1 session x 1,000/s"


def steady(rounds: int, quick: bool) -> Report:
    """G8 to G11 and G21: lone tokens, half of what the core can do."""
    seconds = 2 if quick else 3
    cases = [case for shape in SHAPES for way in (FROM_POD, FROM_SMOOTH) for case in _lone(way, *shape, seconds)]
    one = Load(rate=1000, tokens=1000 * seconds)
    cases += [
        Case(what=UNLOADED, program=OURS, load=one, bridge=bridges.dragoman),
        Case(what=UNLOADED, program=BARE, load=one, bridge=bridges.bare),
        Case(what=UNLOADED, program=WEBSOCKETS, load=one, bridge=bridges.naive_websockets),
    ]
    if shutil.which("socat"):
        cases.append(Case(what=UNLOADED, program=SOCAT, load=structs.replace(one, client="pod"), bridge=bridges.socat))
    else:
        print("steady: socat is not installed, so G10 has no p50", file=sys.stderr)
    taken = measured("steady", cases, rounds)
    return Report(figures=list(_steady_figures(taken)), rows=rows_of(taken))


def _lone(way: str, sessions: int, each: int, seconds: int) -> Iterator[Case]:
    what = f"{way}, {sessions:,} x {each}/s"
    pods = way == FROM_POD
    client, backend = ("smooth", "pod") if pods else ("pod", "smooth")
    load = Load(client=client, backend=backend, sessions=sessions, rate=each, tokens=each * seconds)
    copied = structs.replace(load, client="pod", backend="pod", framing="c" if pods else "b")
    yield Case(what=what, program=OURS, load=load, bridge=bridges.dragoman, separate=pods, directory=pods)
    yield Case(what=what, program=BARE, load=load, bridge=bridges.bare)
    yield Case(what=what, program=WEBSOCKETS, load=load, bridge=bridges.naive_websockets)
    yield Case(what=what, program=RELAY, load=copied, bridge=bridges.relay)


def _steady_figures(taken: Rounds) -> Iterator[Figure]:
    for what in [key[0] for key in taken[0] if key[1] == RELAY]:
        title = f"lone tokens, {what}: CPU an event, to "
        yield most("G21", f"{title}the bare bridge", ratios(taken, what, BARE, cost), 1.25, 1.15)
        yield most("G8", f"{title}the relay in C", ratios(taken, what, RELAY, cost), 1.7, 1.5)
        yield most("G9", f"{title}naive websockets", ratios(taken, what, WEBSOCKETS, cost), 0.65, 0.58)
        if "1,000" in what:
            late = ratios(taken, what, WEBSOCKETS, lambda result: result.p99_all)
            yield most("G11", f"{what}: p99 with the openings, to naive websockets", late, 0.2, 0.05)
    if (UNLOADED, SOCAT) in taken[0]:
        hop = ratios(taken, UNLOADED, SOCAT, lambda result: result.p50)
        yield most("G10", f"{UNLOADED}: p50, to a hop by socat", hop, 1.5, 1.3)
    late = ratios(taken, UNLOADED, WEBSOCKETS, lambda result: result.p99)
    yield most("G10", f"{UNLOADED}: p99, to naive websockets", late, 1.0, 0.75)


# -- bulk -------------------------------------------------------------------------------------------------------


def bulk(rounds: int, quick: bool) -> Report:
    """G3 to G5: at full speed."""
    turns = 2 if quick else 8
    one, many = Load(turns=turns), Load(sessions=500, tokens=400 if quick else 1500)
    naive = structs.replace(one, turns=1)
    alone, crowd = "1 session", "500 sessions"
    cases = [
        Case(what=alone, program=WEBSOCKETS, load=naive, bridge=bridges.naive_websockets),
        Case(what=alone, program=AIOHTTP, load=naive, bridge=bridges.naive_aiohttp),
        Case(what=alone, program=BARE, load=one, bridge=bridges.bare),
        Case(what=alone, program=OURS, load=one, bridge=bridges.dragoman),
        Case(what=crowd, program=WEBSOCKETS, load=structs.replace(many, tokens=200), bridge=bridges.naive_websockets),
        Case(what=crowd, program=BARE, load=many, bridge=bridges.bare),
        Case(what=crowd, program=OURS, load=many, bridge=bridges.dragoman, separate=True, directory=True),
    ]
    taken = measured("bulk", cases, rounds)
    times = "in bulk, events a second: times "

    def cheaper(what: str, peer: str) -> list[float]:
        return [1 / ratio for ratio in ratios(taken, what, peer, cost)]

    figures = [
        least("G3", f"{alone} {times}{WEBSOCKETS}", ratios(taken, alone, WEBSOCKETS, rate), 12, 15),
        least("G4", f"{alone} {times}{AIOHTTP}", ratios(taken, alone, AIOHTTP, rate), 8, 10),
        least("G5", f"{crowd} {times}{WEBSOCKETS}", ratios(taken, crowd, WEBSOCKETS, rate), 6, 8),
        least("", f"the same with {alone} in CPU an event, {WEBSOCKETS}", cheaper(alone, WEBSOCKETS)),
        least("", f"the same with {alone} in CPU an event, {AIOHTTP}", cheaper(alone, AIOHTTP)),
        least("", f"the same with {crowd} in CPU an event, {WEBSOCKETS}", cheaper(crowd, WEBSOCKETS)),
        most("", f"{alone} in bulk, CPU an event: to the {BARE}", ratios(taken, alone, BARE, cost)),
    ]
    return Report(figures=figures, rows=rows_of(taken))


# -- scale ------------------------------------------------------------------------------------------------------


def scale(rounds: int, quick: bool) -> Report:
    """G12 to G14: what many sessions cost. The bare bridge and the relay in C show what the machine itself costs."""
    crowd, total, seconds = (1000, 5000, 2) if quick else (5000, 5000, 4)
    wide = Load(sessions=crowd, rate=total / crowd, tokens=max(2, total // crowd * (seconds + 4)))
    narrow = Load(rate=total, tokens=total * seconds)
    idle = Load(sessions=1000, tokens=20, block=1)
    memory, lone, many = "1,000 sessions", "1 session", "many"
    copied = [structs.replace(load, client="pod", backend="pod", framing="c") for load in (narrow, wide)]
    cases = [
        Case(what=lone, program=OURS, load=narrow, bridge=bridges.dragoman),
        Case(what=many, program=OURS, load=wide, bridge=bridges.dragoman, separate=True, directory=True),
        Case(what=lone, program=BARE, load=narrow, bridge=bridges.bare),
        Case(what=many, program=BARE, load=wide, bridge=bridges.bare),
        Case(what=lone, program=RELAY, load=copied[0], bridge=bridges.relay),
        Case(what=many, program=RELAY, load=copied[1], bridge=bridges.relay),
        Case(what=memory, program=OURS, load=idle, bridge=bridges.dragoman, separate=True, directory=True),
        Case(what=memory, program=WEBSOCKETS, load=idle, bridge=bridges.naive_websockets),
        Case(what=memory, program=BARE, load=idle, bridge=bridges.bare),
    ]
    taken = measured("scale", cases, rounds)
    grown = {
        program: [results[many, program].cost / results[lone, program].cost for results in taken]
        for program in (OURS, BARE, RELAY)
    }
    growth = [_growth(results[memory, OURS]) / 1024 for results in taken]
    connects = [1 / ratio for ratio in ratios(taken, memory, WEBSOCKETS, lambda result: result.connect)]
    figures = [
        most("G12", f"CPU an event, {crowd:,} sessions to 1, {total:,} events/s in sum", grown[OURS], 1.25, 1.15),
        most("", "the same of the bare bridge", grown[BARE]),
        most("", "the same of the relay in C", grown[RELAY]),
        most(
            "G13", "memory of an idle session, to naive websockets", ratios(taken, memory, WEBSOCKETS, _idle), 1.2, 0.9
        ),
        most("G14", "growth of a session after a turn of 20 tokens", growth, 4, 1.5, " KiB"),
        least("", "sessions connected a second, to naive websockets", connects, 0.5, 1.0),
    ]
    rows = rows_of(taken)
    rows += [["program", "what", "KiB a session", "KiB more after a turn", "connects/s", "CPU us a connect", "", ""]]
    for program in (OURS, BARE, WEBSOCKETS):
        of = [results[memory, program] for results in taken]
        sizes = [spread([_idle(one) / 1024 for one in of]), spread([_growth(one) / 1024 for one in of])]
        speeds = spread([one.sessions / one.connect for one in of], "{:,.0f}")
        costs = spread([one.connect_cpu / one.sessions * 1e6 for one in of], "{:,.0f}")
        rows.append([program, memory, *sizes, speeds, costs, "", ""])
    return Report(figures=figures, rows=rows)


def _idle(result: Result) -> float:
    return (result.memory[1] - result.memory[0]) / result.sessions


def _growth(result: Result) -> float:
    return (result.memory[2] - result.memory[1]) / result.sessions


# -- pairs ------------------------------------------------------------------------------------------------------

LONE_RATE, PANDO_RATE = 50, 30  # tokens a second and session, of 100 sessions: at most half of what a core can do


def pairs(rounds: int, quick: bool) -> Report:
    """G22: all pairs, with a route, a listener and a backend for each session, beside the bare bridge of each."""
    cases = []
    for client, backend in PAIRS:
        each = PANDO_RATE if "pando" in (client, backend) else LONE_RATE
        lone = Load(client=client, backend=backend, sessions=100, rate=each, tokens=each * 3 // 2)
        whole = Load(client=client, backend=backend, tokens=20_000, turns=1 if quick else 2)
        for load, kind in ((lone, "lone"), (whole, "bulk")):
            what = f"{client} {backend} {kind}"
            cases.append(Case(what=what, program=OURS, load=load, bridge=bridges.pairwise, separate=True))
            cases.append(Case(what=what, program=BARE, load=load, bridge=bridges.bare, separate=True))
    taken = measured("pairs", cases, rounds)
    rows = [
        [
            "client",
            "backend",
            "bulk events/s",
            "bare",
            "lone CPU us",
            "bare",
            "ratio",
            "p50 us",
            "bare",
            "p99 us",
            "bare",
        ]
    ]
    costs = {}
    for client, backend in PAIRS:
        alone, crowd = f"{client} {backend} lone", f"{client} {backend} bulk"
        costs[client, backend] = ratios(taken, alone, BARE, cost)
        rows.append(
            [
                client,
                backend,
                *_both(taken, crowd, rate, "{:,.0f}"),
                *_both(taken, alone, lambda result: result.cost * 1e6, "{:.1f}"),
                spread(costs[client, backend], "{:.2f}x"),
                *_both(taken, alone, lambda result: result.p50, "{:,.0f}"),
                *_both(taken, alone, lambda result: result.p99, "{:,.0f}"),
            ]
        )
    (client, backend), dearest = max(costs.items(), key=lambda item: median(item[1]))
    title = f"of 16 pairs the dearest, {client} from {backend}: CPU of a lone token, to its bare bridge"
    return Report(figures=[most("G22", title, dearest, 1.5, 1.3)], rows=rows)


def _both(taken: Rounds, what: str, value: Callable[[Result], float], form: str) -> list[str]:
    return [form.format(median(value(results[what, program]) for results in taken)) for program in (OURS, BARE)]


# -- options ----------------------------------------------------------------------------------------------------


def options(rounds: int, quick: bool) -> Report:
    """G17, and what every other option costs, to the gateway without any."""
    lone = Load(sessions=500, rate=20, tokens=40 if quick else 60)
    whole = Load(turns=2 if quick else 6)
    known = [name for name in bridges.OPTIONS if name != "TLS" or shutil.which("openssl")]
    if len(known) < len(bridges.OPTIONS):
        print("options: openssl is not installed, so TLS is not measured", file=sys.stderr)
    cases = []
    for name in known:
        bridge = bridges.with_option(name)
        cases.append(Case(what="lone", program=name, load=lone, bridge=bridge, separate=True, directory=True))
        cases.append(Case(what="bulk", program=name, load=whole, bridge=bridge))
    taken = measured("options", cases, rounds)
    rows = [["option", "lone CPU, to none", "lone CPU us", "p50 us", "bulk events/s, to none", "bulk CPU, to none"]]
    for name in known:
        of = [results["lone", name] for results in taken]
        rows.append(
            [
                name,
                spread(ratios(taken, "lone", "nothing", cost, name), "{:.2f}x"),
                spread([one.cost * 1e6 for one in of], "{:.1f}"),
                spread([one.p50 for one in of], "{:,.0f}"),
                spread(ratios(taken, "bulk", "nothing", rate, name), "{:.2f}x"),
                spread(ratios(taken, "bulk", "nothing", cost, name), "{:.2f}x"),
            ]
        )
    recorded = "recording"
    figures = [
        least(
            "G17",
            "bulk with recording, events/s: to without",
            ratios(taken, "bulk", "nothing", rate, recorded),
            0.6,
            0.75,
        ),
        most(
            "G17",
            "lone tokens with recording, CPU: to without",
            ratios(taken, "lone", "nothing", cost, recorded),
            1.1,
            1.05,
        ),
    ]
    return Report(figures=figures, rows=rows)
