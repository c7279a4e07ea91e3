"""The limit of open files: raised at the start, and never exhausted by clients."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator

import pytest

from dragoman.gateway.overload.descriptors import RESERVE, TABLE, descriptor_shortage, first_reserved, raise_limit


@pytest.fixture(autouse=True)
def _limit_is_restored() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def set_soft(limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def test_the_soft_limit_is_raised() -> None:
    set_soft(256)
    raise_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 256


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the size of the table")
def test_the_table_of_descriptors_has_room_from_the_start() -> None:
    size = "next(line for line in open('/proc/self/status') if line.startswith('FDSize')).split()[1]"
    code = f"from dragoman.gateway.overload.descriptors import raise_limit; raise_limit(); print({size})"
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    told = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE)  # our own code
    assert int(told.stdout) >= (TABLE if hard == resource.RLIM_INFINITY else min(hard, TABLE))


def test_descriptor_shortage_does_not_hold_with_many_free_descriptors() -> None:
    assert descriptor_shortage() == ""


def test_descriptor_shortage_begins_before_the_last_descriptor_is_used() -> None:
    free = os.dup(0)
    os.close(free)
    set_soft(free + RESERVE + 3)
    opened = []
    try:
        while not descriptor_shortage():
            opened.append(os.dup(0))
        # Numbers between may be in use, so there are at most three.
        assert opened
        assert set(opened) <= {free, free + 1, free + 2}
        assert "ulimit -n" in descriptor_shortage()
    finally:
        for descriptor in opened:
            os.close(descriptor)


def test_descriptor_shortage_holds_when_no_descriptor_is_left() -> None:
    free = os.dup(0)
    os.close(free)
    set_soft(free)
    assert "too many open files" in descriptor_shortage()


def test_the_last_descriptors_are_reserved() -> None:
    set_soft(256)
    assert first_reserved() == 256 - RESERVE


def test_a_gateway_without_a_descriptor_for_a_client_warns_at_its_start() -> None:
    bridge = f"exec {sys.executable} -m dragoman bridge smooth+ws://127.0.0.1:0/ws pod+unix:/nowhere/sock"
    with subprocess.Popen(["sh", "-c", f"ulimit -n {RESERVE}; {bridge}"], stderr=subprocess.PIPE) as gateway:
        assert gateway.stderr is not None
        lines = iter(gateway.stderr.readline, b"")
        try:
            assert any(b"no client can connect" in line and b"ulimit -n" in line for line in lines)
        finally:
            gateway.terminate()
