"""Count every message and field that was not delivered, with one sample of each (docs/design.md, section 6). Samples
contain no secrets.

The ledger also holds the gateway's plain counters (frames, events, merged deltas). Both are bounded: a kind beyond the
bound is counted as "other". Events that no client misses are counted for all sessions together: each session has some,
and their rows would leave no room for losses. So are events that arrive without fields that they had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, get_args

from msgspec import Struct, structs

from dragoman.gateway.observability.traffic import Role, Traffic
from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.commands import AnswerOtp
from dragoman.mappings.dialect import Dialect, Loss
from dragoman.mappings.losses import find_ext, sample_text

Key = tuple[str, str, str, str, str, str]
ENTRIES_MAX = 10_000  # a peer that invents field names must not fill the memory
MISSED_BY_NOBODY = frozenset(kind.__name__ for kind in get_args(Event) if kind.bookkeeping)


class Entry(Struct, kw_only=True):
    """A row of the loss ledger: `source` and `target` are dialects; an empty `field` means the whole message."""

    session: str
    source: str
    target: str
    kind: str
    field: str
    why: str
    sample: str
    count: int = 0


class Ledger:
    """Counts of losses by (session, source, target, kind, field, why), and counters by name.

    `times`: translation is timed, because the gateway has an ops port.
    """

    def __init__(self, *, times: bool = False) -> None:
        self.times = times
        self.traffic: dict[tuple[str, Role], Traffic] = {}
        """Counts of what all links of a dialect and role exchanged with their peers."""
        self.turns: Counter[tuple[str, str]] = Counter()
        """Turns that ended, by (route, end)."""
        self._entries: dict[Key, Entry] = {}
        self._of_session: dict[str, list[Key]] = {}
        self._partial: Counter[tuple[str, str, str, str]] = Counter()
        self.counters: Counter[str] = Counter()

    def measure_times(self, *, wanted: bool) -> None:
        """Time the translation of the links that are made from now on, or of none."""
        self.times = wanted

    def traffic_of(self, dialect: str, role: Role) -> Traffic:
        """Return the totals to which the links of this dialect and role add."""
        found = self.traffic.get((dialect, role))
        if found is None:
            found = self.traffic[dialect, role] = Traffic()
        return found

    def counted_traffic(self, dialect: str, role: Role) -> Traffic | None:
        """Return the totals to which a new link of this dialect and role adds; None if the gateway has no ops port."""
        return self.traffic_of(dialect, role) if self.times else None

    def record(self, losses: Iterable[Loss], *, session: str = "", source: str = "", target: str = "") -> None:
        for loss in losses:
            owner = session if loss.field or loss.kind not in MISSED_BY_NOBODY else ""
            key = (owner, source, target, loss.kind, loss.field, loss.why)
            if key not in self._entries and len(self._entries) >= ENTRIES_MAX:
                key = ("", source, target, "other", "", "the ledger is full")
            entry = self._entries.get(key)
            if entry is None:
                entry = self._add_entry(key, _sample(loss.sample))
            entry.count += loss.count

    def _add_entry(self, key: Key, sample: str) -> Entry:
        session, source, target, kind, field, why = key
        entry = self._entries[key] = Entry(
            session=session, source=source, target=target, kind=kind, field=field, why=why, sample=sample
        )
        if session:
            self._of_session.setdefault(session, []).append(key)
        return entry

    def move_session(self, session: str, target: str) -> None:
        """Count the losses of a session under another id; "" stands for all sessions that were forgotten."""
        for key in self._of_session.pop(session, ()):
            entry = self._entries.pop(key)
            moved = (target, *key[1:])
            known = self._entries.get(moved) or self._add_entry(moved, entry.sample)
            known.count += entry.count

    def count_partial(
        self,
        source: Dialect,
        target: Dialect,
        items: Iterable[Any],
        losses: Sequence[Loss] = (),
        *,
        commands: bool = False,
    ) -> list[tuple[Any, tuple[str, ...]]]:
        """Count the events (or commands) that reached `target` without fields that they had, by the rules for them.

        Return each of them with these fields. An item loses no field if source and target are the same dialect. Items
        of a kind in `losses` did not reach the target.
        """
        found: list[tuple[Any, tuple[str, ...]]] = []
        if source.name == target.name:
            return found
        own = (source.commands if commands else source.events).to_canonical.ext
        lossy = (target.commands if commands else target.events).from_canonical.lossy
        missing = []
        for loss in losses:
            if not loss.field:
                missing.append(loss.kind)  # noqa: PERF401  # a comprehension would be a call for each batch
        for item in items:
            kind = type(item)
            if kind.__name__ in missing:
                continue
            rule = lossy.get(kind)
            lost = rule.find_lost(item) if rule is not None else ()
            if kind in own and item.ext is not None:
                lost += find_ext(item.ext, source.name, own[kind])
            if lost:
                self._partial[source.name, target.name, kind.__name__, ", ".join(lost)] += 1
                found.append((item, lost))
        return found

    def entries(self) -> list[Entry]:
        """Return all rows, the largest count first."""
        return sorted(self._entries.values(), key=lambda entry: -entry.count)

    def partial(self) -> list[Entry]:
        """Return rows for messages delivered without fields that they had, the largest count first."""
        return [
            Entry(
                session="",
                source=source,
                target=target,
                kind=kind,
                field=fields,
                why=f"{target} cannot represent these fields",
                sample="",
                count=n,
            )
            for (source, target, kind, fields), n in self._partial.most_common()
        ]


def _sample(lost: object) -> str:
    """Return the beginning of a lost message, without secrets."""
    text = sample_text(structs.replace(lost, code="[redacted]") if isinstance(lost, AnswerOtp) else lost)
    if not text:
        return ""
    from dragoman.gateway.recording.redaction.rules import redact_text  # 30 ms at the start that most runs do not need

    return redact_text(text, cut=True)
