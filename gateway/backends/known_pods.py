"""The pods of a directory as they were last read: folders are read, and pods are probed, in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dragoman.gateway.pods.index import SLICE, PodIndex
from dragoman.gateway.pods.live import Pod, Pods
from dragoman.mappings.dialect import Clock

READ_AGAIN_NS = 1_000_000_000  # between two readings of all folders: 5,000 take about 15 ms of a thread


class KnownPods:
    """Keeps the `index` of some pods up to date. `note_changed` is told the session of each pod with a new row."""

    def __init__(self, pods: Pods, index: PodIndex, monotonic: Clock, note_changed: Callable[[str], None]) -> None:
        self._pods = pods
        self._index = index
        self._monotonic = monotonic
        self._note_changed = note_changed
        self._read_at = 0  # ns: when the folders of all pods were read

    async def update_names(self) -> None:
        """Learn which pods the directory has now, if it has changed."""
        if not self._pods.is_changed():
            return
        names = await asyncio.to_thread(self._pods.list_names)
        if names is not self._index.names:
            for _ in self._index.update_names(names):
                await asyncio.sleep(0)
            self._read_at = 0

    async def probe(self, names: list[str], *, idle: bool = False) -> list[Pod]:
        """Ask pods whether they are alive, up to the first that is, and is idle if that is wanted."""
        pods = await asyncio.to_thread(self._pods.probe, names, idle=idle)
        for pod in pods:
            self._update(pod)
        return pods

    async def read_folders(self) -> None:
        """Read what changed: in all folders, but not again within a second, and in those that came last."""
        now, names = self._monotonic(), tuple(self._index.newest)
        if now - self._read_at >= READ_AGAIN_NS:
            self._read_at, names = now, tuple(self._index.names)
        for first in range(0, len(names), SLICE):
            known = self._index.times_of(names[first : first + SLICE])
            for pod in await asyncio.to_thread(self._pods.read_changed, known):
                if self._update(pod) and pod.listens:
                    self._index.add_candidate(pod.name)

    def _update(self, pod: Pod) -> bool:
        """Take over what was read of a pod; return True if it is new. Its session may have another place in lists."""
        if not self._index.update_pod(pod):
            return False
        self._note_changed(self._index.session_of(pod.name))
        return True
