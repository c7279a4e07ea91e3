"""From samples to figures: each goal as the median of its ratio over the rounds, with the spread; tables and JSON."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable
from importlib.metadata import version
from statistics import median

from msgspec import Struct

from tests.bench import bulk, codec, pairs, recording, replay, start, stdio, steady, zeromq

__all__ = [
    "Figure",
    "Report",
    "as_markdown",
    "bulk_report",
    "codec_report",
    "machine",
    "pairs_report",
    "recording_report",
    "replay_report",
    "start_report",
    "stdio_report",
    "steady_report",
    "table",
]

LIBRARIES = ("aiohttp", "msgspec", "uvloop", "websockets")


class Figure(Struct, frozen=True, kw_only=True):
    """A ratio of two measurements, with a value for each round. `goal` and `stretch` are 0 where it is reported only.

    `at_most` says which way is good: a cost against a floor must stay below, a rate against a peer above.
    """

    id: str
    title: str
    rounds: list[float]
    goal: float = 0.0
    stretch: float = 0.0
    at_most: bool = False

    @property
    def value(self) -> float:
        return median(self.rounds)

    @property
    def verdict(self) -> str:
        if not self.goal:
            return ""
        return "stretch" if self._reaches(self.stretch) else "goal" if self._reaches(self.goal) else "MISSED"

    def _reaches(self, bound: float) -> bool:
        return self.value <= bound if self.at_most else self.value >= bound


class Report(Struct, frozen=True, kw_only=True):
    """The figures of one benchmark, and the rows behind them: a heading, then lines of text cells."""

    figures: list[Figure]
    rows: list[list[str]]


# -- codec ------------------------------------------------------------------------------------------


def codec_report(rounds: list[list[codec.Sample]]) -> Report:
    """G1 and G2: the median over the kinds that smooth has a form for."""

    def over(keep: Callable[[codec.Sample], bool], ratio: Callable[[codec.Sample], float]) -> list[float]:
        return [median(ratio(sample) for sample in taken if keep(sample)) for taken in rounds]

    figures = [
        Figure(
            id="G1",
            title="translation against bare msgspec from wire to wire: median of the kinds with a smooth form",
            rounds=over(_written, _to_floor),
            goal=2.0,
            stretch=1.4,
            at_most=True,
        ),
        Figure(id="", title="the same, text_delta alone", rounds=over(_is("text_delta"), _to_floor)),
        Figure(id="", title="the same, with the kinds that smooth has no form for", rounds=over(_kind, _to_floor)),
        *(
            Figure(id="", title=f"{name}: with link and session", rounds=over(_is(name), _to_floor))
            for name in codec.LIVE
        ),
        Figure(
            id="G2",
            title="translation, times faster than json.loads and dumps: median of the same kinds",
            rounds=over(_written, _to_json),
            goal=4.0,
            stretch=6.0,
        ),
        Figure(id="", title="the same, text_delta alone", rounds=over(_is("text_delta"), _to_json)),
        Figure(id="", title="the same, with the kinds that smooth has no form for", rounds=over(_kind, _to_json)),
    ]
    return Report(figures=figures, rows=_codec_rows(rounds))


def _kind(sample: codec.Sample) -> bool:
    return sample.kind not in codec.LIVE


def _written(sample: codec.Sample) -> bool:
    return _kind(sample) and bool(sample.writes)


def _is(name: str) -> Callable[[codec.Sample], bool]:
    return lambda sample: sample.kind == name


def _to_floor(sample: codec.Sample) -> float:
    return sample.ours / sample.direct


def _to_json(sample: codec.Sample) -> float:
    return sample.json / sample.ours


def _codec_rows(rounds: list[list[codec.Sample]]) -> list[list[str]]:
    rows = [["pod events", "smooth form", "ours ns", "msgspec ns", "json ns", "x msgspec", "faster than json"]]
    for samples in zip(*rounds, strict=True):
        first = samples[0]
        costs = [median(cost) for cost in zip(*((s.ours, s.direct, s.json) for s in samples), strict=True)]
        rows.append(
            [
                first.kind,
                first.writes or "-",
                *(f"{cost:.0f}" if cost else "-" for cost in costs),
                spread(map(_to_floor, samples)),
                spread(map(_to_json, samples)) if first.json else "-",
            ]
        )
    return rows


# -- bulk -------------------------------------------------------------------------------------------


def bulk_report(rounds: list[list[bulk.Sample]]) -> Report:
    """G3 and G4: events a second, and CPU beside."""
    figures = []
    for name, peer, goal, stretch in (
        ("G3", bulk.NAIVE_WEBSOCKETS, 8.0, 15.0),
        ("G4", bulk.NAIVE_AIOHTTP, 5.0, 10.0),
    ):
        pairs = [(_of(samples, bulk.DRAGOMAN), _of(samples, peer)) for samples in rounds]
        figures += [
            Figure(
                id=name,
                title=f"bulk, one session, events a second: times {peer}",
                rounds=[ours.rate / theirs.rate for ours, theirs in pairs],
                goal=goal,
                stretch=stretch,
            ),
            Figure(
                id="",
                title="the same in CPU an event",
                rounds=[theirs.cpu / theirs.events / (ours.cpu / ours.events) for ours, theirs in pairs],
            ),
        ]
    return Report(figures=figures, rows=_bulk_rows(rounds))


def _of(samples: list[bulk.Sample], bridge: str) -> bulk.Sample:
    return next(sample for sample in samples if sample.bridge == bridge)


def _bulk_rows(rounds: list[list[bulk.Sample]]) -> list[list[str]]:
    rows = [["bridge", "events a round", "events/s", "CPU us/event", "merged"]]
    for bridge in bulk.BRIDGES:
        samples = [_of(taken, bridge) for taken in rounds]
        rows.append(
            [
                bridge,
                f"{samples[0].events:,}",
                spread([s.rate for s in samples], "{:,.0f}"),
                spread([s.cpu / s.events * 1e6 for s in samples]),
                f"{sum(s.merged for s in samples) / sum(s.events for s in samples):.1%}",
            ]
        )
    return rows


# -- stdio ------------------------------------------------------------------------------------------


def stdio_report(rounds: list[list[stdio.Sample]]) -> Report:
    """G7, at one line a write and at many; without websocketd on this machine only the pump is there to compare."""
    figures = []
    for lines, goal, stretch in ((1, 1.5, 3.0), (stdio.LINES, 3.0, 6.0)):
        what = "line" if lines == 1 else "lines"
        title = f"a child's stdout to a WebSocket with translation, {lines} {what} a write, events a second: times"
        for peer in (stdio.WEBSOCKETD, stdio.PUMP):
            if any(sample.bridge == peer for sample in rounds[0]):
                judged = peer == stdio.WEBSOCKETD
                figures.append(
                    Figure(
                        id="G7" if judged else "",
                        title=f"{title} {peer}" if judged else f"the same, times {peer}",
                        rounds=[stdio.ratio(samples, peer, lines) for samples in rounds],
                        goal=goal if judged else 0.0,
                        stretch=stretch if judged else 0.0,
                    )
                )
    return Report(figures=figures, rows=_stdio_rows(rounds))


def _stdio_rows(rounds: list[list[stdio.Sample]]) -> list[list[str]]:
    rows = [["bridge", "lines a write", "events/s"]]
    for bridge, lines in dict.fromkeys((sample.bridge, sample.lines) for sample in rounds[0]):
        samples = [s for taken in rounds for s in taken if (s.bridge, s.lines) == (bridge, lines)]
        rows.append([bridge, str(lines), spread([s.rate for s in samples], "{:,.0f}")])
    return rows


# -- steady -----------------------------------------------------------------------------------------


def steady_report(rounds: list[list[steady.Sample]]) -> Report:
    """G9, both ways: CPU an event."""
    figures = [
        Figure(
            id="G9",
            title=f"steady, {steady.SESSIONS} sessions, {way}: CPU an event, to that of {steady.NAIVE}",
            rounds=[
                _steady(samples, way, steady.DRAGOMAN).cost / _steady(samples, way, steady.NAIVE).cost
                for samples in rounds
            ],
            goal=0.8,
            stretch=0.65,
            at_most=True,
        )
        for way in steady.WAYS
    ]
    return Report(figures=figures, rows=_steady_rows(rounds))


def _steady(samples: list[steady.Sample], way: str, bridge: str) -> steady.Sample:
    return next(sample for sample in samples if (sample.way, sample.bridge) == (way, bridge))


def _steady_rows(rounds: list[list[steady.Sample]]) -> list[list[str]]:
    rows = [["bridge", "what", "events a round", "CPU us/event", "seconds, as planned 1"]]
    for way in steady.WAYS:
        for bridge in steady.BRIDGES:
            samples = [_steady(taken, way, bridge) for taken in rounds]
            rows.append(
                [
                    bridge,
                    way,
                    f"{samples[0].events:,}",
                    spread(s.cost * 1e6 for s in samples),
                    spread(s.seconds / s.planned for s in samples),
                ]
            )
    return rows


# -- start ------------------------------------------------------------------------------------------


def start_report(rounds: list[dict[str, start.Sample]]) -> Report:
    """G20: what an unused gateway costs, to a bare server on the same libraries."""
    pairs_of = [(taken[start.DRAGOMAN], taken[start.BARE]) for taken in rounds]
    listening = Figure(
        id="G20",
        title=f"CPU until the gateway listens, to a {start.BARE} on aiohttp, uvloop, msgspec and pyzmq",
        rounds=[ours.cpu / bare.cpu for ours, bare in pairs_of],
        goal=1.4,
        stretch=1.2,
        at_most=True,
    )
    idle = Figure(
        id="G20",
        title="the same, memory while idle",
        rounds=[ours.memory / bare.memory for ours, bare in pairs_of],
        goal=1.3,
        stretch=1.15,
        at_most=True,
    )
    rows = [["server", "CPU until it listens, s", "memory while idle, MiB"]]
    for name in (start.BARE, start.DRAGOMAN):
        samples = [taken[name] for taken in rounds]
        rows.append([name, spread(s.cpu for s in samples), spread(s.memory / 2**20 for s in samples)])
    return Report(figures=[listening, idle], rows=rows)


# -- ZeroMQ -----------------------------------------------------------------------------------------


def zeromq_report(rounds: list[zeromq.Sample]) -> Report:
    """G18: what the event loop pays for a published event."""
    figure = Figure(
        id="G18",
        title="a pando's events received: loop time an event, to that of zmq.asyncio",
        rounds=[zeromq.ratio(sample) for sample in rounds],
        goal=0.4,
        stretch=0.25,
        at_most=True,
    )
    rows = [["receiver", "loop us/event"]]
    rows.append(["ours", spread(sample.ours * 1e6 for sample in rounds)])
    rows.append(["zmq.asyncio", spread(sample.theirs * 1e6 for sample in rounds)])
    return Report(figures=[figure], rows=rows)


# -- pairs ------------------------------------------------------------------------------------------


def pairs_report(rounds: list[dict[tuple[str, str], pairs.Sample]]) -> Report:
    """All pairs, to smooth from smooth: of the slowest one a figure, all of them as rows."""

    def ratios(pair: tuple[str, str]) -> list[float]:
        return [samples[pair].rate / samples[pairs.BASE].rate for samples in rounds]

    slowest = min(pairs.PAIRS, key=lambda pair: median(ratios(pair)))
    client, backend = slowest
    title = f"of {len(pairs.PAIRS)} pairs the slowest, {client} from {backend}: events a second, to smooth from smooth"
    rows = [["client", "backend", "events/s", "CPU us/event", "x smooth from smooth"]]
    for pair in pairs.PAIRS:
        samples = [taken[pair] for taken in rounds]
        rows.append(
            [
                *pair,
                spread([s.rate for s in samples], "{:,.0f}"),
                spread([s.cpu / s.events * 1e6 for s in samples]),
                spread(ratios(pair)),
            ]
        )
    return Report(figures=[Figure(id="", title=title, rounds=ratios(slowest))], rows=rows)


# -- replay -----------------------------------------------------------------------------------------


def replay_report(rounds: list[replay.Sample]) -> Report:
    """How fast a recording is played, to reading it: reported only."""
    figures = [
        Figure(
            id="", title="replay: CPU of playing an event to reading it", rounds=[s.played / s.read for s in rounds]
        ),
        Figure(id="", title="the same, into a session", rounds=[s.taken / s.read for s in rounds]),
    ]
    rows = [["", "us/event", "events/s"]]
    for name, spent in (
        ("read", [s.read for s in rounds]),
        ("played", [s.played for s in rounds]),
        ("played into a session", [s.taken for s in rounds]),
    ):
        micros, rates = [seconds * 1e6 for seconds in spent], [1 / seconds for seconds in spent]
        rows.append([name, spread(micros), spread(rates, "{:,.0f}")])
    return Report(figures=figures, rows=rows)


# -- recording --------------------------------------------------------------------------------------


def recording_report(rounds: list[recording.Sample]) -> Report:
    """G17: with recording to without it; and how soon a line is found."""

    def rates(way: str) -> list[float]:
        return [sample.bulk[way].rate / sample.bulk[recording.OFF].rate for sample in rounds]

    figures = [
        Figure(
            id="G17",
            title="bulk with recording, events a second: to without",
            rounds=rates(recording.REDACTED),
            goal=0.6,
            stretch=0.75,
        ),
        Figure(id="", title="the same without redaction", rounds=rates(recording.ON)),
        Figure(
            id="G17",
            title=f"steady, {steady.SESSIONS} sessions, with recording, CPU an event: to without",
            rounds=[recorded.cost / plain.cost for sample in rounds for plain, recorded in sample.steady],
            goal=1.1,
            stretch=1.03,
            at_most=True,
        ),
        Figure(
            id="",
            title="finding a line of a compressed recording: to reading all of it",
            rounds=[sample.seek.compressed / sample.seek.whole for sample in rounds],
        ),
    ]
    rows = [["", "events/s", "CPU us/event"]]
    for way in recording.WAYS:
        taken = [sample.bulk[way] for sample in rounds]
        rows.append(
            [
                f"bulk, {way}",
                spread([one.rate for one in taken], "{:,.0f}"),
                spread(one.cpu / one.events * 1e6 for one in taken),
            ]
        )
    for number, way in enumerate((recording.OFF, recording.REDACTED)):
        costs = [pair[number].cost * 1e6 for sample in rounds for pair in sample.steady]
        rows.append([f"steady, {way}", "", spread(costs)])
    lines = f"a line of {rounds[0].seek.lines:,}"
    rows.append([f"{lines}, plain: ms", spread(sample.seek.plain * 1e3 for sample in rounds), ""])
    rows.append([f"{lines}, compressed: ms", spread(sample.seek.compressed * 1e3 for sample in rounds), ""])
    return Report(figures=figures, rows=rows)


# -- text -------------------------------------------------------------------------------------------


def spread(values: Iterable[float], form: str = "{:.2f}") -> str:
    """`median [least..greatest]`."""
    known = list(values)
    return f"{form.format(median(known))} [{form.format(min(known))}..{form.format(max(known))}]"


def machine(rounds: int) -> str:
    """Where and with what this was measured."""
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    return (
        f"{os.cpu_count()} CPUs ({platform.machine()}, {platform.system()}), {platform.python_implementation()} "
        f"{platform.python_version()}, {libraries}; {rounds} interleaved rounds: median [least..greatest]"
    )


def goals(figures: list[Figure]) -> list[list[str]]:
    """The table of all figures."""
    rows = [["", "what", "ratio", "goal", "stretch", ""]]
    for figure in figures:
        sign = "<=" if figure.at_most else ">="
        bounds = [f"{sign} {figure.goal:g}x", f"{sign} {figure.stretch:g}x"] if figure.goal else ["", ""]
        rows.append([figure.id, figure.title, spread(figure.rounds, "{:.2f}x"), *bounds, figure.verdict])
    return rows


def table(rows: list[list[str]]) -> str:
    """Columns of equal width; the first row is the heading."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def as_markdown(figures: list[Figure], said: str) -> str:
    """Return the figures as a Markdown table, for docs/performance.md."""
    rows = goals(figures)
    rows.insert(1, ["---"] * len(rows[0]))
    return "\n".join(["| " + " | ".join(row) + " |" for row in rows] + ["", said + "."])
