"""The budget of memory of the whole gateway (docs/design.md, section 6).

Links and sessions are its holders. Each has a meter of the bytes that a peer can make it hold: unfinished messages,
frames that wait, logs and transcripts. Above TIGHT of the limit the gateway accepts no new connection or session. At
the limit the largest holder is relieved first: a link is disconnected, a session drops the oldest part of its log.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path

from dragoman.adapters.meter import STEP, Meter

MEMORY_MAX = 1024 * 1024 * 1024  # the default on a large machine: 10,000 idle clients count as a third of it
MEMORY_MIN = 1024 * 1024  # the least default, and the least value of the key `memory`
OWN = 64 * 1024 * 1024  # bytes of the gateway itself, without peers
SHARE = 4  # a quarter of the remaining memory: the agent beside the gateway needs the rest
TIGHT = 0.8  # above this part of the limit new connections and sessions are refused
RELIEVED = 0.95  # holders free memory until this part of the limit is in use
GROWN = 1 - RELIEVED  # the part of the limit that is added before the holders are sorted again


class MemoryBudget:
    """Adds up the meters of all holders. `limit` is in bytes."""

    def __init__(self, limit: int = MEMORY_MAX) -> None:
        self.limit = limit
        self.used = 0
        """Bytes that all holders count now."""
        self.relieved = 0
        """Number of times that a holder was told to free its memory."""
        self._relieve: dict[Meter, Callable[[], None]] = {}
        self._relieving = False
        self._left = 0  # bytes that were left the last time, or fewer if some were freed since
        self._report = self._count  # one bound method for all meters, because each takes 70 bytes

    def change_limit(self, limit: int) -> None:
        """Use another limit from now on. Holders of too much memory are relieved with the next growth."""
        self.limit, self._left = limit, 0

    def watch(self, meter: Meter, relieve: Callable[[], None]) -> None:
        """Count a holder. `relieve` frees what it can at once; it is called when this holder is the largest."""
        self._relieve[meter] = relieve
        meter.watch(self._report)
        self._count(meter.counted)

    def release(self, meter: Meter) -> None:
        """Stop counting a holder: it has freed everything."""
        if self._relieve.pop(meter, None) is not None:
            meter.watch()
            self.used -= meter.counted
            self._left = min(self._left, self.used)

    def refusal(self) -> str:
        """Return an error text for a new peer or session if memory is short; "" if there is enough."""
        if self.used <= TIGHT * self.limit:
            return ""
        return f"the gateway is out of memory: {self.used} of {self.limit} bytes (`memory`) are in use; try again later"

    # --------------------------------------------------------------------------------------------------

    def _count(self, change: int) -> None:
        self.used += change
        if change < 0:
            self._left = min(self._left, self.used)
        elif self.used > max(self.limit, self._left + GROWN * self.limit) and not self._relieving:
            self._relieving = True
            try:
                self._relieve_largest()
            finally:
                self._relieving, self._left = False, self.used

    def _relieve_largest(self) -> None:
        goal = RELIEVED * self.limit
        for meter in sorted(self._relieve, key=lambda meter: meter.counted, reverse=True):
            if self.used <= goal or meter.size < STEP:  # to disconnect an idle client would free nothing
                return
            self.relieved += 1
            self._relieve[meter]()


def default_limit(root: Path = Path("/")) -> int:
    """Return a quarter of what this process may use above OWN, at most MEMORY_MAX; `root` is the file system."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = [machine, *_cgroup_limits(root)]
    address_space, _ = resource.getrlimit(resource.RLIMIT_AS)
    if address_space != resource.RLIM_INFINITY:
        limits.append(address_space)
    return min(MEMORY_MAX, max(MEMORY_MIN, (min(limits) - OWN) // SHARE))


def _cgroup_limits(root: Path) -> list[int]:
    """Return the limits of this process's control groups and their parents, of version 2 and 1."""
    mounted = root / "sys/fs/cgroup"
    try:
        lines = (root / "proc/self/cgroup").read_text("utf-8").splitlines()
    except OSError:  # not Linux
        return []
    limits: list[int] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            limits += _limits_above(mounted, path, "memory.max")
            limits += _limits_above(mounted, path, "memory.high")  # above it the kernel stops the process for seconds
        elif "memory" in controllers.split(","):
            limits += _limits_above(mounted / "memory", path, "memory.limit_in_bytes")
    return limits


def _limits_above(mounted: Path, path: str, name: str) -> list[int]:
    """Return the numbers in files `name` of a group and its parents; a container may see only the topmost one."""
    group = mounted / path.lstrip("/")
    limits: list[int] = []
    for folder in (group, *group.parents):
        if not folder.is_relative_to(mounted):
            break
        try:
            limits.append(int((folder / name).read_text("utf-8")))
        except (OSError, ValueError):  # the file is missing, or says `max`
            continue
    return limits
