"""The index of pods: names, candidates, and the order of a list."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.gateway.pods.index import SLICE, PodIndex
from dragoman.gateway.pods.live import Pod


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


def test_a_pod_that_left_the_directory_is_forgotten() -> None:
    pods = index("atlas", "hermes")
    pods.update_pod(Pod(name="atlas", listens=True))
    assert list(pods.update_names(("hermes",))) == []
    assert [pods.find_pod("id-atlas"), pods.find_agent("agent-atlas")] == [None, None]
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
