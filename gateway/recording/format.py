"""The format of a recording, version 3 (docs/recording.md).

JSON Lines. The first line is a Header; each further one is a FrameLine (what stood on a wire) or an EventLine (what it
meant: a canonical event or command). Both kinds share one count, `seq`, and one clock, `t`: microseconds since the
header's `started_at`, which never go back. What is alike is stored as one: a Stream of deltas with the frames that they
came and went in, a FrameRun of other frames. Keys that nobody knows are skipped, older versions are brought up to date
by CONVERTERS, and a version that is newer than this program is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from dragoman.gateway.recording.runs import Stored
from dragoman.mappings.errors import ConfigError

__all__ = [
    "CONVERTERS",
    "FORMAT",
    "VERSION",
    "Header",
    "LineError",
    "NewerError",
    "RecordingError",
    "decode_header",
    "decode_line",
    "encode",
    "encode_lines",
]

FORMAT = "dragoman-recording"
VERSION = 3

Convert = Callable[[dict[str, Any]], dict[str, Any]]

CONVERTERS: dict[int, Convert] = {
    1: lambda line: {**line, "version": 2} if "version" in line else line,  # version 2 added the runs
    2: lambda line: {**line, "version": 3} if "version" in line else line,  # version 3 added the streams
}
"""Version -> what makes a line of it, header or not, one of the next version. Nothing is ever taken out of here."""


class RecordingError(ConfigError):
    """A file is no recording, or none that this program can read; the text says what to do."""


class NewerError(RecordingError):
    """A recording that only a later version of this program can read."""


class LineError(ValueError):
    """A line of a recording that cannot be read. `unknown` is its kind, where it has one that nobody knows."""

    def __init__(self, text: str, unknown: str = "") -> None:
        super().__init__(text)
        self.unknown = unknown


class Header(Struct, frozen=True, kw_only=True, tag_field="kind", tag="header"):
    """The first line.

    `started_at` is the wall clock (ns since the Unix epoch) at t = 0, of the first part where a recording was rotated:
    `part` counts them from 0, and `seq` is that of the part's first line. `session` "" means the route's own frames.
    `dialects` are those of the route's endpoints with the generation that they name ("" is the dialect's default), and
    `upstream` is the endpoint, without its token. `lost` lines were not written before this part began.
    """

    format: str = FORMAT
    version: int = VERSION
    gateway: str = ""
    started_at: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] = 0  # until the year 2262
    route: str = ""
    session: str = ""
    dialects: dict[str, str] = {}
    upstream: str = ""
    part: int = 0
    seq: int = 0
    lost: int = 0


_ENCODER = msgspec.json.Encoder()
_LINE: msgspec.json.Decoder[Stored] = msgspec.json.Decoder(Stored)
_HEADER = msgspec.json.Decoder(Header)


class _Stamp(Struct):
    """What is read of a first line before anything else of it is believed."""

    format: str = ""
    version: int = 0


class _Kind(Struct):
    kind: str = ""


_STAMP = msgspec.json.Decoder(_Stamp)
_KIND = msgspec.json.Decoder(_Kind)


def encode(line: Header | Stored) -> bytes:
    """A line as bytes, without its newline."""
    return _ENCODER.encode(line)


def encode_lines(lines: Sequence[Header | Stored]) -> bytes:
    """Lines as bytes, each with its newline."""
    return _ENCODER.encode_lines(lines)


def decode_header(line: bytes, name: str = "this file") -> tuple[Header, int]:
    """The first line of a recording and the version that it was written in.

    RecordingError if it is none, NewerError if it is newer than this program.
    """
    try:
        stamp = _STAMP.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        stamp = _Stamp()
    if stamp.format != FORMAT:
        raise RecordingError(f"{name} is no recording: its first line is no header of format {FORMAT!r}")
    if stamp.version > VERSION:
        raise NewerError(
            f"{name} is a recording of version {stamp.version}, and this dragoman reads up to {VERSION}: "
            "read it with a newer dragoman"
        )
    if stamp.version < VERSION and stamp.version not in CONVERTERS:
        raise RecordingError(f"{name} is a recording of version {stamp.version}, which never was")
    try:
        header = _HEADER.decode(upgrade(line, stamp.version))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RecordingError(f"{name}: its header cannot be read: {error}") from error
    return header, stamp.version


def decode_line(line: bytes, version: int = VERSION) -> Stored:
    """A further line of a recording of that version; LineError if it cannot be read."""
    try:
        return _LINE.decode(upgrade(line, version))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LineError(str(error), _unknown_kind(line)) from None


def upgrade(line: bytes, version: int) -> bytes:
    """A line of an older version as one of this."""
    if version == VERSION:
        return line
    value = msgspec.json.decode(line)
    if not isinstance(value, dict):
        raise msgspec.DecodeError("a line is a JSON object")
    for older in range(version, VERSION):
        value = CONVERTERS[older](value)
    return msgspec.json.encode(value)


def _unknown_kind(line: bytes) -> str:
    try:
        kind = _KIND.decode(line).kind
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    return "" if kind in ("frame", "event", "frames", "events", "stream") else kind
