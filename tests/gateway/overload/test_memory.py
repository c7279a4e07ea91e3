"""The budget of memory: what is counted, when new peers are refused, and which holders free memory first."""

from __future__ import annotations

from pathlib import Path
from resource import RLIM_INFINITY

import pytest

from dragoman.adapters.meter import STEP, Meter
from dragoman.gateway.overload.memory import MEMORY_MAX, MemoryBudget, default_limit

MIB = 1024 * 1024


class Holder:
    """A holder that frees all its memory when asked, or none if it is `stubborn`."""

    def __init__(self, budget: MemoryBudget, *, stubborn: bool = False) -> None:
        self.meter = Meter()
        self.relieved = 0
        self._stubborn = stubborn
        budget.watch(self.meter, self._relieve)

    def _relieve(self) -> None:
        self.relieved += 1
        if not self._stubborn:
            self.meter.add(-self.meter.size)


def test_each_holder_counts_as_one_step_from_the_beginning() -> None:
    budget = MemoryBudget(100 * STEP)
    holders = [Holder(budget) for _ in range(3)]
    assert budget.used == 3 * STEP
    budget.release(holders[0].meter)
    budget.release(holders[0].meter)
    assert budget.used == 2 * STEP


def test_bytes_of_a_released_holder_are_not_counted() -> None:
    budget = MemoryBudget(100 * STEP)
    holder = Holder(budget)
    holder.meter.add(50 * STEP)
    budget.release(holder.meter)
    holder.meter.add(10 * STEP)
    assert budget.used == 0


def test_the_memory_budget_admits_no_client_above_four_fifths_of_its_limit() -> None:
    budget = MemoryBudget(100 * STEP)
    holder = Holder(budget)
    holder.meter.add(79 * STEP)
    assert budget.refusal() == ""
    holder.meter.add(STEP)
    assert "`memory`" in budget.refusal()
    holder.meter.add(-STEP)
    assert budget.refusal() == ""


def test_at_the_memory_limit_only_the_largest_user_drops_its_data() -> None:
    budget = MemoryBudget(100 * STEP)
    small, large, last = Holder(budget), Holder(budget), Holder(budget)
    small.meter.add(20 * STEP)
    large.meter.add(60 * STEP)
    last.meter.add(16 * STEP)
    assert (small.relieved, large.relieved, last.relieved) == (0, 0, 0)
    last.meter.add(2 * STEP)
    assert (small.relieved, large.relieved, last.relieved) == (0, 1, 0)
    assert budget.used == 41 * STEP


def test_the_largest_memory_user_must_free_its_own_growth() -> None:
    budget = MemoryBudget(100 * STEP)
    small, large = Holder(budget), Holder(budget)
    small.meter.add(10 * STEP)
    large.meter.add(200 * STEP)
    assert (small.relieved, large.relieved, large.meter.size) == (0, 1, 0)


def test_a_user_of_little_memory_never_has_to_free_it() -> None:
    budget = MemoryBudget(10 * STEP)
    idle, stubborn = Holder(budget), Holder(budget, stubborn=True)
    stubborn.meter.add(20 * STEP)
    assert (idle.relieved, stubborn.relieved) == (0, 1)


def test_holders_that_free_nothing_are_asked_again_only_after_further_growth() -> None:
    budget = MemoryBudget(100 * STEP)
    stubborn = Holder(budget, stubborn=True)
    stubborn.meter.add(110 * STEP)
    for _ in range(5):
        stubborn.meter.add(STEP)
    assert stubborn.relieved == 1, "a twentieth of the limit"
    stubborn.meter.add(STEP)
    assert stubborn.relieved == 2
    budget.change_limit(90 * STEP)
    stubborn.meter.add(STEP)
    assert stubborn.relieved == 3


def test_freed_memory_does_not_allow_more_growth_before_the_next_relief() -> None:
    budget = MemoryBudget(100 * STEP)
    stubborn, gone = Holder(budget, stubborn=True), Holder(budget, stubborn=True)
    gone.meter.add(90 * STEP)
    stubborn.meter.add(80 * STEP)
    budget.release(gone.meter)
    stubborn.meter.add(21 * STEP)
    assert stubborn.relieved == 2


@pytest.mark.parametrize(
    ("groups", "files", "limit"),
    [
        ("0::/\n", {"memory.max": f"{128 * MIB}"}, 16 * MIB),
        ("0::/\n", {"memory.max": "max", "memory.high": f"{128 * MIB}"}, 16 * MIB),
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": f"{96 * MIB}", "memory.max": "max"}, 8 * MIB),
        ("9:memory:/x\n8:pids:/\n", {"memory/x/memory.limit_in_bytes": f"{100 * MIB}"}, 9 * MIB),
        ("9:memory:/hidden\n", {"memory/memory.limit_in_bytes": f"{100 * MIB}"}, 9 * MIB),
        ("0::/\n", {"memory.max": f"{32 * MIB}"}, MIB),
    ],
    ids=["v2", "v2 that slows down", "the parent of a v2 group", "v1", "v1 in a container", "less than we need"],
)
def test_the_default_is_a_quarter_of_what_a_control_group_leaves_above_our_own_memory(
    groups: str, files: dict[str, str], limit: int, tmp_path: Path
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(groups, "utf-8")
    for name, text in files.items():
        file = tmp_path / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n", "utf-8")
    assert default_limit(tmp_path) == limit


def test_without_a_control_group_the_default_is_a_quarter_of_what_the_machine_or_ulimit_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = {"SC_PHYS_PAGES": 256 * 1024, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr("os.sysconf", pages.__getitem__)
    assert default_limit(tmp_path) == 240 * MIB
    monkeypatch.setattr("resource.getrlimit", lambda _which: (128 * MIB, RLIM_INFINITY))
    assert default_limit(tmp_path) == 16 * MIB


def test_the_default_is_never_more_than_one_gibibyte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sysconf", lambda _name: 1 << 30)
    assert default_limit(tmp_path) == MEMORY_MAX == 1 << 30
