"""Decrypt what a client sends over TLS in pieces, in turns with other connections.

One read of 256 KiB may have 11,000 records of a few bytes. Each of them may change the keys of the connection (RFC
8446, section 4.6.3), and takes 3 to 30 us. All of them at once would hold the event loop for up to 364 ms. So the
records of a read are counted by their headers, and a few of them are decrypted at once. Behind these the rest of the
read waits for its turn, and the connection is not read meanwhile. Each read of a handshake waits for its turn: it may
need a signature, or the check of a certificate.
"""

from __future__ import annotations

import asyncio
from asyncio import sslproto
from collections.abc import Callable, Iterator
from typing import Any

import structlog

from dragoman.adapters.base import NewWork, Work
from dragoman.adapters.meter import Meter

HEADER = 5  # bytes of a record before its content: its kind, the version, and the length in two bytes
RECORDS = 16  # records that are decrypted at once: 0.5 ms if each of them changes the keys
RECORD_UNITS = 2048  # units of work of a record: those of a costly one, because its kind is encrypted
SHAKE_UNITS = 256 * 1024  # units of work of a read of the handshake: 1 to 2 ms for a signature with a key of RSA
PIECE = 16 * 1024  # bytes that TLS is given at once: each connection keeps room for the largest piece, twice
BYTES_OF_UNIT = 16  # bytes of records that cost one unit, as of WebSocket frames

log = structlog.get_logger("dragoman.link")


def make_tls(loop: asyncio.AbstractEventLoop, *args: Any, **options: Any) -> asyncio.BufferedProtocol:
    """Return the TLS protocol that this event loop uses for its own connections."""
    module: Any = sslproto
    if type(loop).__module__.startswith("uvloop"):
        from uvloop import loop as module  # it may not be installed
    protocol: asyncio.BufferedProtocol = module.SSLProtocol(loop, *args, **options)
    return protocol


class TcpOfTls:
    """The TCP transport as TLS uses it: both TLS and MeteredTls may stop the reading."""

    def __init__(self, tcp: Any) -> None:
        self._tcp = tcp
        self._paused_by_tls = False
        self._paused_for_turn = False
        self._is_paused = False

    def pause_reading(self) -> None:
        """Read nothing more until TLS wants to read on."""
        self._paused_by_tls = True
        self._control()

    def resume_reading(self) -> None:
        """Read on, unless data waits for its turn."""
        self._paused_by_tls = False
        self._control()

    def wait_for_turn(self, *, waits: bool) -> None:
        """Read nothing while data waits for its turn."""
        self._paused_for_turn = waits
        self._control()

    def _control(self) -> None:
        paused = self._paused_by_tls or self._paused_for_turn
        if paused is self._is_paused or self._tcp.is_closing():
            return
        self._is_paused = paused
        if paused:
            self._tcp.pause_reading()
        else:
            self._tcp.resume_reading()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tcp, name)


class MeteredTls(asyncio.Protocol):
    """The protocol of a TCP connection that passes the bytes that it reads to `tls`. `new_work` makes the work of its
    turns.

    `is_shaken` returns True once the handshake is over.
    """

    def __init__(self, tls: asyncio.BufferedProtocol, new_work: NewWork, is_shaken: Callable[[], bool]) -> None:
        self._is_shaken = is_shaken
        self._meter: Meter | None = None
        self._counted = 0  # bytes that the meter counts
        self._tls = tls
        self._new_work = new_work
        self._work: Work | None = None  # while data waits for its turn
        self._kept = 0  # bytes that wait for their turn
        self._skip = 0  # bytes of the current record that are still to come
        self._header = b""  # the beginning of a header whose rest is still to come
        self._tcp: TcpOfTls

    def count_with(self, meter: Meter) -> None:
        """Count the bytes that wait for their turn with this meter from now on."""
        self._meter = meter

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._tcp = TcpOfTls(transport)
        self._tls.connection_made(self._tcp)  # type: ignore[arg-type]  # it passes on all that TLS calls

    def data_received(self, data: bytes) -> None:
        is_whole = not (self._skip or self._header or self._kept) and len(data) == HEADER + int.from_bytes(data[3:5])
        if is_whole and self._is_shaken():
            self._feed(data)  # one record, as most reads are
            return
        self._kept += len(data)
        if self._work is None:
            self._work = self._new_work(self._fail)
        self._work.add_work(self._decrypt_in_turn(self._work, data))
        if self._kept:
            self._tcp.wait_for_turn(waits=True)
            self._count()

    def eof_received(self) -> bool | None:
        """Pass EOF to TLS and return its answer.

        No data waits here, because the connection is not read while data waits.
        """
        return self._tls.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._work is not None:
            self._work.stop()
            self._work, self._kept = None, 0
            self._count()
        self._tls.connection_lost(exc)

    def pause_writing(self) -> None:
        self._tls.pause_writing()

    def resume_writing(self) -> None:
        self._tls.resume_writing()

    # ----------------------------------------------------------------------------------------------------

    def _decrypt_in_turn(self, work: Work, data: bytes) -> Iterator[None]:
        """Decrypt what was read in pieces, one for each turn."""
        data, begin = self._header + data, 0
        self._kept += len(self._header)
        self._header = b""
        while begin < len(data):
            end, records = begin + self._skip, 0
            while records < RECORDS and end + HEADER <= len(data):
                end += HEADER + int.from_bytes(data[end + 3 : end + HEADER])
                records += 1
            if records < RECORDS and end < len(data):
                self._header = data[end:]
            self._skip = max(0, end - len(data))
            piece = data[begin:end]
            begin = end + len(self._header)
            self._kept -= len(piece) + len(self._header)
            units = records * RECORD_UNITS + len(piece) // BYTES_OF_UNIT if self._is_shaken() else SHAKE_UNITS
            self._feed(piece)
            work.count(units)
            if self._kept:
                yield
        if not self._kept:
            self._work = None  # it refers to us, and takes 0.8 KB of an idle connection
            self._count()
            self._tcp.wait_for_turn(waits=False)

    def _feed(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest and not self._tcp.is_closing():
            room = memoryview(self._tls.get_buffer(len(rest)))
            size = min(len(room), len(rest), PIECE)
            room[:size] = rest[:size]
            self._tls.buffer_updated(size)
            rest = rest[size:]

    def _count(self) -> None:
        if self._meter is not None:
            self._meter.add(self._kept - self._counted)
            self._counted = self._kept

    def _fail(self, error: Exception) -> None:
        """Disconnect the peer: a part of what it sent was not decrypted."""
        log.error("decryption failed, disconnecting the peer", exc_info=error)
        self._tcp.abort()
