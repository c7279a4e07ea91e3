"""An index of the pods of one directory: by the names that clients use, by what may be free, and by time.

KnownPods keeps it up to date: it reads folders and probes pods in a thread. Each call of the index itself costs about
the same for one pod as for thousands, except `update_names`, which pauses after each slice.

    a pod is                 when
    a candidate              it is new, its folder has changed, or its session lost its owner
    no candidate             it was asked and is busy or dead, or it has an owner
    listed                   it has a socket, and was not found dead since its folder changed
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import islice

from dragoman.gateway.pods.live import Pod, Pods
from dragoman.mappings.bounded import remember
from dragoman.mappings.dialect import Clock

SLICE = 128  # pods at a time: about 5 ms to index them, 4 ms to read them
READ_AGAIN_NS = 1_000_000_000  # between two readings of all folders: 5,000 take about 15 ms of a thread
GONE = 10_000  # names and agent ids of pods that have ended
NEWEST = 64  # folders that came last: a pod makes its folder first, then binds its socket


class PodIndex:
    """The pods of one directory. `ids_of` returns the ids of a pod's session, `agent_of` its id as an agent."""

    def __init__(self, ids_of: Callable[[str], tuple[str, ...]], agent_of: Callable[[str], str]) -> None:
        self._ids_of = ids_of
        self._agent_of = agent_of
        self.names: Sequence[str] = ()
        self.newest: deque[str] = deque(maxlen=NEWEST)
        self._ids: dict[str, tuple[str, ...]] = {}  # pod -> ids of its session that clients know, our own first
        self._by_id: dict[str, str] = {}
        self._by_agent: dict[str, str] = {}
        self._gone: dict[str, str] = {}  # agent id or name -> a pod that has ended, whose clients get no other pod
        self._candidates: list[str] = []  # heap of the pods that may be free
        self._queued: set[str] = set()  # the names in the heap
        self._pods: dict[str, Pod] = {}  # name -> the pod when it was last read
        self._by_time: list[tuple[int, str]] = []  # (-updated_at, name) of the listed pods, sorted

    def update_names(self, names: Sequence[str]) -> Iterator[None]:
        """Update the index with the names in the directory; yield after each slice of new ones."""
        for name in self._ids.keys() - set(names):
            self._drop(name)
        for number, name in enumerate([name for name in names if name not in self._ids], 1):
            self._by_agent[self._agent_of(name)] = name
            self._ids[name] = ids = self._ids_of(name)
            self._by_id |= dict.fromkeys(ids, name)
            self.newest.append(name)
            self.add_candidate(name)
            if not number % SLICE:
                yield
        self.names = names

    def _drop(self, name: str) -> None:
        agent = self._agent_of(name)
        self._by_agent.pop(agent, None)
        for known_as in (agent, name):
            remember(self._gone, known_as, name, GONE)
        for known_as in self._ids.pop(name):
            self._by_id.pop(known_as, None)
        self._unlist(self._pods.pop(name, None))

    # -- names -----------------------------------------------------------------------------------------

    def session_of(self, name: str) -> str:
        return self._ids[name][0]

    def find_pod(self, name: str) -> str | None:
        """Return the name of the pod with this name, or whose session has this id; None if there is none."""
        return name if name in self._ids else self._by_id.get(name)

    def find_agent(self, agent: str) -> str | None:
        """Return the pod that a client means by this agent: its name, or the id that follows from its name.

        The pod may have ended since the gateway was started.
        """
        return agent if agent in self._ids else self._by_agent.get(agent) or self._gone.get(agent)

    # -- what is known of them -------------------------------------------------------------------------

    def update_pod(self, pod: Pod) -> bool:
        """Update the index with the facts that were read of a pod; return True if the pod is new."""
        known = self._pods.get(pod.name)
        if pod.name not in self._ids or known == pod:
            return False
        self._unlist(known)
        self._pods[pod.name] = pod
        if pod.listens:
            insort(self._by_time, (-pod.updated_at, pod.name))
        return True

    def _unlist(self, pod: Pod | None) -> None:
        if pod is not None and pod.listens:
            del self._by_time[bisect_left(self._by_time, (-pod.updated_at, pod.name))]

    def times_of(self, names: Sequence[str]) -> list[tuple[str, int]]:
        """Return these names, each with the modification time of its folder when it was read."""
        return [(name, pod.modified if (pod := self._pods.get(name)) is not None else 0) for name in names]

    def find_listed(self, session: str) -> Pod | None:
        pod = self._pods.get(self._by_id.get(session, ""))
        return pod if pod is not None and pod.listens else None

    def newest_first(self, updated_at: int | None = None) -> Iterator[Pod]:
        """Yield the pods that a list shows, from those that changed at this time on; None stands for all."""
        start = 0 if updated_at is None else bisect_left(self._by_time, (-updated_at, ""))
        for _, name in islice(self._by_time, start, None):
            yield self._pods[name]

    # -- free pods -------------------------------------------------------------------------------------

    def add_candidate(self, name: str) -> None:
        if name not in self._queued:
            self._queued.add(name)
            heappush(self._candidates, name)

    def next_candidates(self, most: int, is_owned: Callable[[str], bool]) -> list[str]:
        """Remove and return the first `most` candidates; leave out pods whose session has an owner."""
        found: list[str] = []
        while self._candidates and len(found) < most:
            name = heappop(self._candidates)
            self._queued.discard(name)
            if name in self._ids and not is_owned(self._ids[name][0]):
                found.append(name)
        return found


class KnownPods:
    """Keeps the `index` of the pods up to date.

    `note_changed` is called with the session of each pod whose list row has changed.
    """

    def __init__(self, pods: Pods, index: PodIndex, monotonic: Clock, note_changed: Callable[[str], None]) -> None:
        self._pods = pods
        self._index = index
        self._monotonic = monotonic
        self._note_changed = note_changed
        self._read_at = 0  # ns: when the folders of all pods were read

    async def update_names(self) -> None:
        """Read the names of the pods again if the directory has changed."""
        if not self._pods.is_changed():
            return
        names = await asyncio.to_thread(self._pods.list_names)
        if names is not self._index.names:
            for _ in self._index.update_names(names):
                await asyncio.sleep(0)
            self._read_at = 0

    async def probe(self, names: list[str], *, wanted: int = 1, idle: bool = False) -> list[Pod]:
        """Probe these pods in order until `wanted` of them are alive (with `idle`: alive and idle).

        Return the probed ones.
        """
        pods = await asyncio.to_thread(self._pods.probe, names, wanted=wanted, idle=idle)
        for pod in pods:
            self._update(pod)
        return pods

    async def read_folders(self) -> None:
        """Read the folders that have changed: all of them at most once a second, and the newest ones each time."""
        now, names = self._monotonic(), tuple(self._index.newest)
        if now - self._read_at >= READ_AGAIN_NS:
            self._read_at, names = now, tuple(self._index.names)
        for first in range(0, len(names), SLICE):
            known = self._index.times_of(names[first : first + SLICE])
            for pod in await asyncio.to_thread(self._pods.read_changed, known):
                if self._update(pod) and pod.listens:
                    self._index.add_candidate(pod.name)

    def _update(self, pod: Pod) -> bool:
        """Update the index with the facts that were read of a pod, and report a changed list row.

        Return True if the pod is new.
        """
        if not self._index.update_pod(pod):
            return False
        self._note_changed(self._index.session_of(pod.name))
        return True
