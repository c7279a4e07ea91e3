"""From samples of the parts that need no load to figures and rows."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from tests.bench import codec, recording, replay, start, stdio, zeromq
from tests.bench.pod_turn import LINES
from tests.bench.text import Figure, Report, spread

# -- codec ----------------------------------------------------------------------


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


# -- stdio ----------------------------------------------------------------------


def stdio_report(rounds: list[list[stdio.Sample]]) -> Report:
    """G7, at one line a write and at many; without websocketd on this machine only the pump is there to compare."""
    figures = []
    for lines, goal, stretch in ((1, 1.5, 3.0), (LINES, 3.0, 6.0)):
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


# -- start ----------------------------------------------------------------------


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


# -- replay ----------------------------------------------------------------------


def replay_report(rounds: list[replay.Sample]) -> Report:
    """The time to play a recording, compared with reading it: reported only."""
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


# -- recording ----------------------------------------------------------------------


def recording_report(rounds: list[recording.Seek]) -> Report:
    """The time to find a line."""
    found = Figure(
        id="",
        title="finding a line of a compressed recording: to reading all of it",
        rounds=[seek.compressed / seek.whole for seek in rounds],
    )
    lines = f"a line of {rounds[0].lines:,}"
    rows = [["", "ms"]]
    rows.append([f"{lines}, plain", spread(seek.plain * 1e3 for seek in rounds)])
    rows.append([f"{lines}, compressed", spread(seek.compressed * 1e3 for seek in rounds)])
    return Report(figures=[found], rows=rows)
