"""The index of pods: names, candidates, and the order of a list.

Pods are read again only if something shows a change, and in a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import cast

import pytest

from dragoman.gateway.pods.index import READ_AGAIN_NS, SLICE, KnownPods, PodIndex
from dragoman.gateway.pods.live import Pod, Pods


def index(*names: str) -> PodIndex:
    made = PodIndex(lambda name: (f"id-{name}", f"smooth-{name}"), lambda name: f"agent-{name}")
    assert list(made.update_names(names)) == []
    return made


def free(pods: PodIndex, most: int = 9, owned: Sequence[str] = ()) -> list[str]:
    return pods.next_candidates(most, lambda session: session in owned)


def test_a_pod_is_found_by_its_name_and_by_each_id_of_its_session() -> None:
    pods = index("atlas")
    assert {pods.find_pod(name) for name in ("atlas", "id-atlas", "smooth-atlas")} == {"atlas"}
    assert [pods.find_agent("atlas"), pods.find_agent("agent-atlas"), pods.find_agent("x")] == ["atlas", "atlas", None]


def test_a_pod_that_left_the_directory_is_forgotten_except_for_clients_that_name_it() -> None:
    pods = index("atlas", "hermes")
    pods.update_pod(Pod(name="atlas", listens=True))
    assert list(pods.update_names(("hermes",))) == []
    assert pods.find_pod("id-atlas") is None
    assert [pods.find_agent(name) for name in ("agent-atlas", "atlas", "agent-new", "new")] == [
        "atlas",
        "atlas",
        None,
        None,
    ]
    assert not list(pods.newest_first())
    assert free(pods) == ["hermes"]


def test_new_pods_are_indexed_in_slices() -> None:
    pods = index()
    assert len(list(pods.update_names([f"{number}" for number in range(3 * SLICE)]))) == 3


def test_candidates_come_by_name_once_and_without_those_that_have_an_owner() -> None:
    pods = index("c", "b", "a")
    assert free(pods, 1, owned=["id-a"]) == ["b"]
    pods.add_candidate("b")
    pods.add_candidate("b")
    assert free(pods) == ["b", "c"]
    assert free(pods) == []


def test_a_list_has_the_pod_first_whose_status_changed_last() -> None:
    pods = index("a", "b", "c")
    for name, at in (("a", 1), ("b", 3), ("c", 2)):
        pods.update_pod(Pod(name=name, updated_at=at, listens=True))
    assert [pod.name for pod in pods.newest_first()] == ["b", "c", "a"]
    assert [pod.name for pod in pods.newest_first(2)] == ["c", "a"]


def test_a_pod_that_was_found_dead_is_not_listed() -> None:
    pods = index("a")
    assert pods.update_pod(Pod(name="a", listens=True))
    assert pods.find_listed("id-a") is not None
    assert pods.update_pod(Pod(name="a", listens=False))
    assert not list(pods.newest_first())
    assert pods.find_listed("id-a") is None


def test_known_facts_about_a_pod_are_no_news() -> None:
    pods = index("a")
    assert pods.update_pod(Pod(name="a", modified=5))
    assert not pods.update_pod(Pod(name="a", modified=5))
    assert pods.times_of(["a", "b"]) == [("a", 5), ("b", 0)]


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

    def probe(self, names: Sequence[str], *, wanted: int, idle: bool) -> list[Pod]:
        assert threading.current_thread() is not threading.main_thread()
        assert wanted == 1
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
