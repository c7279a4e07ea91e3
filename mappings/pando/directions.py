"""The rule tables and codecs of both directions of pando, without the state of any link.

Only one frame of a ZeroMQ message is read: the first frame of a publication, the last frame of a call. Only that frame
is written: the transport chooses the socket, and adds the empty delimiter frame before a call or a reply.
"""

from __future__ import annotations

import msgspec

from dragoman.mappings.canonical import Event
from dragoman.mappings.dialect import Burst, Direction, LineForm, Parts, Rendered
from dragoman.mappings.errors import PeerError
from dragoman.mappings.losses import command_direction
from dragoman.mappings.pando.from_canonical.commands import FROM_COMMAND
from dragoman.mappings.pando.from_canonical.context import Context
from dragoman.mappings.pando.from_canonical.events import FROM_EVENT
from dragoman.mappings.pando.to_canonical.commands import TO_COMMAND
from dragoman.mappings.pando.to_canonical.events import TO_EVENT, envelope
from dragoman.mappings.pando.wire.codecs import EVENTS, REQUESTS

PUB, RPC = "pub", "rpc"
"""`Parts.channel` of messages on the PUB socket and on the RPC socket of a primary."""

FRAMES = msgspec.json.Decoder(list[str])


def _write_events(burst: Burst[Event]) -> Rendered:
    frames: list[bytes] = []
    context = Context(at=burst.at, request=burst.request)
    context.publish_as(burst.ext, burst.session)
    for item in burst.items:
        frames += map(EVENTS.encode, FROM_EVENT.functions[type(item)](item, context))
    return Rendered(frames=frames, losses=context.take_losses())


def _published_or_reply(message: Parts) -> bytes:
    """Return the frame that a client reads: the last one of a reply, the first one of a publication."""
    parts = message.parts
    if len(parts) > 1 and not parts[0]:
        if b"\0" in parts[-1]:
            raise PeerError("invalid", "a reply must be JSON")
        return parts[-1]
    if not parts or b"\0" not in parts[0]:
        raise PeerError("invalid", "no 0x00 after the topic")
    return parts[0]


def _request(message: Parts) -> bytes:
    """Return the frame that a server reads: the last one, whatever frames come before it."""
    if not message.parts:
        raise PeerError("invalid", "a message without frames")
    return message.parts[-1]


def _parts(line: bytes) -> list[bytes]:
    try:
        return [frame.encode() for frame in FRAMES.decode(line)]
    except (msgspec.DecodeError, UnicodeError) as error:
        raise PeerError("not_json", f"a line is a JSON array of frames: {error}") from error


def _read_event(line: bytes) -> Parts:
    parts = _parts(line)
    return Parts(PUB if len(parts) == 1 else RPC, b"", tuple(parts))


def _read_request(line: bytes) -> Parts:
    return Parts(RPC, b"", tuple(_parts(line)))


def _write_line(frame: bytes) -> bytes:
    text = frame.decode()
    return msgspec.json.encode([text] if "\0" in text else ["", text])


FROM_SERVER = Direction(
    codec=EVENTS,
    to_canonical=TO_EVENT,
    from_canonical=FROM_EVENT,
    envelope=envelope,
    write=_write_events,
    unwrap=_published_or_reply,
    lines=LineForm(read=_read_event, write=_write_line),
)

FROM_CLIENT = command_direction(
    REQUESTS, TO_COMMAND, FROM_COMMAND, _request, LineForm(read=_read_request, write=_write_line)
)
