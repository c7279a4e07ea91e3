"""Lines for tests of recordings."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from msgspec import structs

from gateway.recording import blocks
from gateway.recording.format import EventLine, FrameLine, Header, Line, encode, encode_lines
from mappings.canonical.events import TextDelta

__all__ = ["FROZEN", "HEADER", "compressed", "in_parts", "numbered", "written"]

FROZEN = Path(__file__).resolve().parents[2] / "data" / "recordings"
HEADER = Header(gateway="0.1.0", started_at=1_700_000_000_000_000_000, route="test", session="s")


def numbered(count: int, text: str = "word", every: int = 10) -> list[Line]:
    """So many lines, frame and event by turns; each `every` µs, two lines at one time."""
    lines: list[Line] = []
    for seq in range(1, count + 1):
        t = seq // 2 * every
        if seq % 2:
            lines.append(FrameLine(seq=seq, t=t, link="up", dir="receive", dialect="pod", text=f"{text} {seq}"))
        else:
            event = TextDelta(text=f"{text} {seq}")
            lines.append(EventLine(seq=seq, t=t, cursor=f"1:{seq // 2}", turn="t", event=event))
    return lines


def written(path: Path, lines: list[Line], header: Header = HEADER) -> Path:
    """A plain recording of these lines."""
    path.write_bytes(encode(header) + b"\n" + encode_lines(lines))
    return path


def in_parts(path: Path, lines: list[Line], *ends: int, packed: tuple[int, ...] = ()) -> list[Path]:
    """A recording of these lines whose parts end behind the lines with these seqs; those in `packed` are compressed."""
    paths = []
    for number, (begin, end) in enumerate(pairwise((0, *ends, lines[-1].seq))):
        some = [line for line in lines if begin < line.seq <= end]
        name = f"{path.stem}.{number}{path.suffix}" if number else path.name
        header = structs.replace(HEADER, part=number, seq=some[0].seq)
        write, more = (compressed, ".zst") if number in packed else (written, "")
        paths.append(write(path.with_name(name + more), some, header))
    return paths


def compressed(path: Path, lines: list[Line], header: Header = HEADER) -> Path:
    """A compressed recording of these lines."""
    raw = [encode(header) + b"\n", *(encode(line) + b"\n" for line in lines)]
    path.write_bytes(b"".join(blocks.compressed(raw)))
    return path
