"""G17: what recording costs. Bulk throughput and steady CPU of dragoman with recording, to dragoman without it.

Recording as it is by default redacts secrets; without that it is measured too, for that is where the floor lies. Also
how long it takes to find a line in the middle of a recording, to reading up to it: by the index of a compressed file,
by halving in a plain one.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from random import Random

from msgspec import Struct

from dragoman.gateway.recording import index
from dragoman.gateway.recording.format import Header, encode, packed
from dragoman.gateway.recording.lines import EventLine, FrameLine, Line
from dragoman.gateway.recording.reader import Reader, open_recording
from dragoman.mappings.canonical.events import TextDelta
from tests.bench import bulk, steady
from tests.bench.client import Client
from tests.bench.processes import Process, cores, pin

__all__ = ["OFF", "ON", "REDACTED", "WAYS", "Bulk", "Sample", "Seek", "measure"]

OFF, ON, REDACTED = "not recorded", "recorded, not redacted", "recorded"
WAYS = (OFF, ON, REDACTED)
TURNS, QUICK_TURNS = 6, 2
LINES, QUICK_LINES = 400_000, 100_000  # of a recording in which lines are looked for
SEEKS = 20
PAIRS, QUICK_PAIRS = 3, 1  # of steady samples a round: what is looked for is less than what one differs from the next


class Bulk(Struct, frozen=True, kw_only=True):
    """The result of a session at full speed."""

    events: int
    seconds: float
    cpu: float

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / self.seconds


class Seek(Struct, frozen=True, kw_only=True):
    """Seconds to find a line, and to read the whole file up to its end."""

    plain: float
    compressed: float
    whole: float
    lines: int


class Sample(Struct, frozen=True, kw_only=True):
    """The result of a round.

    `steady` are pairs of samples of steady.py: without recording, and with it as it is by default.
    """

    bulk: dict[str, Bulk]
    steady: list[tuple[steady.Sample, steady.Sample]]
    seek: Seek


def measure(rounds: int, quick: bool) -> list[Sample]:
    """The samples of each round."""
    pair = cores()
    if pair is not None:
        pin(pair[0])
    core = pair[1] if pair else None
    seconds = steady.QUICK_SECONDS if quick else steady.SECONDS
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as folder:
        pod = f"{folder}/sock"
        lines = QUICK_LINES if quick else LINES
        found = _recordings(Path(folder), lines)
        with Process("tests.bench.backend", pod, core=pair[0] if pair else None):
            return [
                Sample(
                    bulk={way: _bulk(way, pod, quick, core) for way in WAYS},
                    steady=[_steady(seconds, core, number) for number in range(QUICK_PAIRS if quick else PAIRS)],
                    seek=_seek(*found, lines),
                )
                for _ in range(rounds)
            ]


def _steady(seconds: int, core: int | None, number: int) -> tuple[steady.Sample, steady.Sample]:
    """A pair; every second one has the recording first, so that a machine that gets slower spoils neither."""
    bridges = (steady.DRAGOMAN, steady.RECORDING)
    order = bridges[::-1] if number % 2 else bridges
    taken = {bridge: steady.sample(steady.FROM_POD, bridge, seconds, core) for bridge in order}
    return taken[steady.DRAGOMAN], taken[steady.RECORDING]


def _bulk(way: str, pod: str, quick: bool, core: int | None) -> Bulk:
    print(f"recording: bulk, {way} ...", file=sys.stderr, flush=True)
    turns = QUICK_TURNS if quick else TURNS
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as folder:
        config = Path(folder, "config.toml")
        config.write_text(_config(way, pod, folder))
        arguments = ("dragoman", "serve", "--config", str(config), "--log-level", "warning")
        with Process(*arguments, core=core) as process:
            client = Client(process.endpoint.partition("+")[2])
            bulk.checked(client, bulk.WARM_UP)
            before = process.cpu()
            seconds = sum(bulk.checked(client, bulk.TURN)[0] for _ in range(turns))
            cpu = process.cpu() - before
            client.close()
        if way != OFF:
            _check(Path(folder, "rec"), turns)
    return Bulk(events=turns * bulk.TURN, seconds=seconds, cpu=cpu)


def _config(way: str, pod: str, folder: str) -> str:
    route = f'[[route]]\nlisten = ["smooth+ws://127.0.0.1:0/ws"]\nupstream = "pod+unix:{pod}"\n'
    if way == OFF:
        return route
    redact = f"[recording.redact]\nenabled = {'true' if way == REDACTED else 'false'}\n"
    return f'{route}[recording]\npath = "{folder}/rec"\ncompress = false\n{redact}'


def _check(folder: Path, turns: int) -> None:
    """A recording that is not whole has no figure."""
    said = 0
    for path in folder.iterdir():
        said += sum(len(event.text) for _, event in open_recording(path).events() if isinstance(event, TextDelta))
    expected = turns * len(bulk.answer(bulk.TURN)) + len(bulk.answer(bulk.WARM_UP))
    assert said == expected, f"{said} characters were recorded instead of {expected}"


# -- seek ---------------------------------------------------------------------------------------------------


def _recordings(folder: Path, count: int) -> tuple[Reader, Reader]:
    """A plain and a compressed recording of a long conversation."""
    print("recording: files to look for lines in ...", file=sys.stderr, flush=True)
    words = bulk.answer(64).split()
    lines = [encode(Header(session="s")) + b"\n"]
    for seq in range(1, count + 1):
        word = words[seq % len(words)]
        line: Line
        if seq % 2:
            text = f'{{"event":"text_delta","data":{{"text":"{word} "}}}}'
            line = FrameLine(seq=seq, t=seq * 16, link="up", dir="receive", dialect="pod", text=text)
        else:
            line = EventLine(seq=seq, t=seq * 16, cursor=f"1:{seq}", turn="t", at=seq, event=TextDelta(text=f"{word} "))
        lines += [encode(step) + b"\n" for step in packed([line])]
    plain, small = folder / "a.jsonl", folder / "a.jsonl.zst"
    plain.write_bytes(b"".join(lines))
    small.write_bytes(b"".join(index.compressed(lines)))
    return open_recording(plain), open_recording(small)


def _seek(plain: Reader, packed: Reader, lines: int) -> Seek:
    at = Random(1)  # which lines, no secret
    wanted = [at.randrange(1, lines) for _ in range(SEEKS)]
    return Seek(plain=_found(plain, wanted), compressed=_found(packed, wanted), whole=_read(plain), lines=lines)


def _found(recording: Reader, wanted: list[int]) -> float:
    before = time.perf_counter()
    for seq in wanted:
        assert next(recording.lines(seq=seq)).seq == seq
    return (time.perf_counter() - before) / len(wanted)


def _read(recording: Reader) -> float:
    before = time.perf_counter()
    assert sum(1 for _ in recording.lines()) > 0
    return time.perf_counter() - before
