"""Subscribers whose connection stalls, tested with plain TCP sockets."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zmq

from dragoman.adapters.zeromq.subscribers import Subscribers

DEADLINE = 10.0
ACCEPTED, DISCONNECTED = int(zmq.EVENT_ACCEPTED), int(zmq.EVENT_DISCONNECTED)


def bounded(most: int = 100, topics: int = 100, refused: list[str] | None = None) -> Subscribers:
    """Return subscribers with these bounds; the reasons of disconnections are added to `refused`."""
    reasons: list[str] = [] if refused is None else refused
    return Subscribers(DEADLINE, most=most, topics=topics, refused=reasons.append)


@contextmanager
def connection() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Return both ends of a connection with small buffers: ours and the peer's."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
        with ours, peer:
            ours.setblocking(False)
            yield ours, peer


def fill(ours: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        while True:
            ours.send(b"x" * 65536)


def ended(peer: socket.socket) -> bool:
    peer.settimeout(10)
    while peer.recv(1 << 20):
        pass
    return True


def test_a_stalled_subscriber_is_disconnected_at_its_deadline_and_not_before() -> None:
    subscribers = bounded()
    with connection() as (stalled, peer), connection() as (reading, other):
        for ours in (stalled, reading):
            subscribers.note_event(ACCEPTED, ours.fileno())
        fill(stalled)
        for now in (0.0, DEADLINE - 0.1):
            subscribers.disconnect_stalled(now)
            assert len(subscribers) == 2
        subscribers.disconnect_stalled(DEADLINE)
        assert len(subscribers) == 1
        assert ended(peer)
        reading.send(b"still there")
        assert other.recv(100) == b"still there"


def test_reading_restarts_the_deadline_of_a_subscriber() -> None:
    subscribers = bounded()
    with connection() as (slow, peer), connection() as (other, _):
        for ours in (slow, other):
            subscribers.note_event(ACCEPTED, ours.fileno())
        fill(slow)
        subscribers.disconnect_stalled(0.0)
        peer.recv(1 << 22)
        peer.recv(1 << 22)
        fill_again(slow)
        subscribers.disconnect_stalled(DEADLINE)
        assert len(subscribers) == 2


def fill_again(ours: socket.socket) -> None:
    """Fill the queue to another size than before, as a queue that has moved would have."""
    ours.setblocking(True)
    ours.send(b"x" * 100)


def test_a_subscriber_that_left_is_forgotten() -> None:
    subscribers = bounded()
    with connection() as (ours, _):
        subscribers.note_event(ACCEPTED, ours.fileno())
        subscribers.note_event(DISCONNECTED, ours.fileno())
        assert len(subscribers) == 0


def test_a_descriptor_that_now_belongs_to_another_connection_is_not_touched() -> None:
    subscribers = bounded()
    with connection() as (first, _), connection() as (second, _), connection() as (another, peer):
        for ours in (first, second):
            subscribers.note_event(ACCEPTED, ours.fileno())
        os.dup2(another.fileno(), first.fileno())
        fill(another)
        for now in (0.0, DEADLINE):
            subscribers.disconnect_stalled(now)
        assert len(subscribers) == 1
        peer.recv(1)  # it was not shut down: there is more to come
        assert peer.recv(1) == b"x"


def test_a_closed_descriptor_is_forgotten() -> None:
    subscribers = bounded()
    with connection() as (ours, _):
        subscribers.note_event(ACCEPTED, ours.fileno())
    subscribers.disconnect_stalled(0.0)
    assert len(subscribers) == 0


def test_a_connection_whose_send_queue_cannot_be_measured_is_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> bytes:
        raise OSError(errno.ENOTTY, "no such request")

    subscribers = bounded()
    with connection() as (first, _), connection() as (second, peer):
        for ours in (first, second):
            subscribers.note_event(ACCEPTED, ours.fileno())
        monkeypatch.setattr(fcntl, "ioctl", refuse)
        for now in (0.0, DEADLINE):
            subscribers.disconnect_stalled(now)
        assert len(subscribers) == 2
        second.send(b"x")
        assert peer.recv(1) == b"x"


def test_a_number_that_now_belongs_to_a_file_is_forgotten_and_not_touched(tmp_path: Path) -> None:
    subscribers = bounded(topics=1)
    with connection() as (ours, _), (tmp_path / "file").open("wb") as file:
        subscribers.note_event(ACCEPTED, ours.fileno())
        os.dup2(file.fileno(), ours.fileno())
        open_ones = os.listdir("/proc/self/fd")
        for topic in (b"1", b"2"):
            subscribers.subscribed(ours.fileno(), topic)
        subscribers.note_event(ACCEPTED, ours.fileno())
        assert len(subscribers) == 0
        assert os.listdir("/proc/self/fd") == open_ones, "no copy of it is left"


def test_a_connection_with_too_many_topics_is_shut_down_and_no_other() -> None:
    told: list[str] = []
    subscribers = bounded(topics=3, refused=told)
    with connection() as (greedy, peer), connection() as (modest, _):
        for ours in (greedy, modest):
            subscribers.note_event(ACCEPTED, ours.fileno())
        for topic in (b"1", b"2", b"3", b"3", b"1"):
            subscribers.subscribed(greedy.fileno(), topic)
            subscribers.subscribed(modest.fileno(), topic)
        assert (len(subscribers), told) == (2, [])
        subscribers.subscribed(greedy.fileno(), b"4")
        assert len(subscribers) == 1
        assert ended(peer)
        (why,) = told
        assert "`subscriptions`" in why


def test_a_topic_that_was_given_up_makes_room_for_another() -> None:
    subscribers = bounded(topics=1)
    with connection() as (ours, _):
        subscribers.note_event(ACCEPTED, ours.fileno())
        for topic in (b"1", b"2", b"3"):
            subscribers.subscribed(ours.fileno(), topic)
            subscribers.unsubscribed(ours.fileno(), topic)
        assert len(subscribers) == 1


def test_one_connection_too_many_is_shut_down() -> None:
    told: list[str] = []
    subscribers = bounded(most=1, refused=told)
    with connection() as (first, _), connection() as (second, peer):
        subscribers.note_event(ACCEPTED, first.fileno())
        subscribers.note_event(ACCEPTED, second.fileno())
        assert len(subscribers) == 1
        assert ended(peer)
        (why,) = told
        assert "`subscribers`" in why


def test_topics_of_an_unknown_connection_are_ignored() -> None:
    subscribers = bounded(topics=1)
    for topic in (b"1", b"2"):
        subscribers.subscribed(-1, topic)
        subscribers.unsubscribed(-1, topic)
    assert len(subscribers) == 0
