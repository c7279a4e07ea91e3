"""Pods of a directory are read again only if something shows a change, and in a thread."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import cast

import pytest

from dragoman.gateway.backends.known_pods import READ_AGAIN_NS, KnownPods
from dragoman.gateway.pods.index import PodIndex
from dragoman.gateway.pods.live import Pod, Pods


class Directory:
    """The pods of a directory: it notes what is read of them, and returns what the test says."""

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ("atlas", "borealis")
        self.changed = True
        self.found: list[Pod] = []
        self.reads: list[list[str]] = []

    def is_changed(self) -> bool:
        return self.changed

    def list_names(self) -> tuple[str, ...]:
        assert threading.current_thread() is not threading.main_thread()
        return self.names

    def probe(self, names: Sequence[str], *, idle: bool) -> list[Pod]:
        assert threading.current_thread() is not threading.main_thread()
        return [pod for pod in self.found if pod.name in names and (pod.status == "idle" or not idle)]

    def read_changed(self, known: Sequence[tuple[str, int]]) -> list[Pod]:
        assert threading.current_thread() is not threading.main_thread()
        self.reads.append([name for name, _ in known])
        return [pod for pod in self.found if pod.name in self.reads[-1]]


class Known:
    """The pods that are known of a directory, with a clock (ns)."""

    def __init__(self) -> None:
        self.now = READ_AGAIN_NS
        self.directory = Directory()
        self.index = PodIndex(lambda name: (f"id {name}",), lambda name: f"agent {name}")
        self.moved: list[str] = []
        self.pods = KnownPods(cast("Pods", self.directory), self.index, lambda: self.now, self.moved.append)


@pytest.fixture
def known() -> Known:
    return Known()


async def test_names_are_listed_only_if_the_directory_has_changed(known: Known) -> None:
    await known.pods.update_names()
    known.directory.changed, known.directory.names = False, ("atlas",)
    await known.pods.update_names()
    assert known.index.names == ("atlas", "borealis")


async def test_a_pod_that_was_probed_is_listed_and_its_session_has_a_new_place(known: Known) -> None:
    await known.pods.update_names()
    known.directory.found = [Pod(name="atlas", listens=True, updated_at=5)]
    assert await known.pods.probe(["atlas", "borealis"], idle=True) == known.directory.found
    assert [pod.name for pod in known.index.newest_first()] == ["atlas"]
    assert known.moved == ["id atlas"]
    await known.pods.probe(["atlas"])
    assert known.moved == ["id atlas"], "nothing has changed"


async def test_all_folders_are_read_at_most_once_a_second(known: Known) -> None:
    await known.pods.update_names()
    known.index.newest.clear()  # folders that came last are read each time
    for passed in (0, READ_AGAIN_NS - 1, 1):
        known.now += passed
        await known.pods.read_folders()
    assert known.directory.reads == [["atlas", "borealis"]] * 2


async def test_folders_are_read_at_once_if_the_directory_has_new_ones(known: Known) -> None:
    await known.pods.update_names()
    await known.pods.read_folders()
    known.directory.names = ("atlas", "cirrus")
    await known.pods.update_names()
    await known.pods.read_folders()
    assert known.directory.reads[-1] == ["atlas", "cirrus"]


async def test_a_pod_whose_folder_has_changed_may_be_free_again(known: Known) -> None:
    await known.pods.update_names()
    assert known.index.next_candidates(2, lambda _session: False) == ["atlas", "borealis"]
    known.directory.found = [Pod(name="borealis", listens=True, modified=1), Pod(name="atlas", modified=1)]
    await known.pods.read_folders()
    assert known.index.next_candidates(2, lambda _session: False) == ["borealis"], "nobody listens at the other"
