"""The rows of sessions that were forgotten here and that their backend still has.

A pando names its sessions once for each connection, and never again. So the row of a forgotten session is kept: clients
still see it in lists, and the session is made anew when one of them names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dragoman.mappings.canonical.values import SessionSummary
from dragoman.mappings.dialect import Dialect

__all__ = ["ROWS_MAX", "ForgottenRows"]

ROWS_MAX = 10_000  # rows of about 1 KB each; the row that was added first is dropped first


class ForgottenRows:
    """The rows by every name under which clients know their sessions."""

    def __init__(self, dialects: Callable[[], Mapping[str, Dialect]]) -> None:
        self._dialects = dialects
        self._rows: dict[str, SessionSummary] = {}  # by the session's id
        self._ids: dict[str, str] = {}

    def add_row(self, row: SessionSummary) -> SessionSummary | None:
        """Keep the row of a session; return the oldest row if there is no room for it any more."""
        self._rows[row.session] = row
        self._ids |= dict.fromkeys(self._names(row), row.session)
        if len(self._rows) > ROWS_MAX:
            return self.remove_row(next(iter(self._rows)))
        return None

    def remove_row(self, name: str) -> SessionSummary | None:
        """Remove the row of a session that is open again, or gone; return it if there was one."""
        row = self._rows.pop(self._ids.get(name, ""), None)
        for known in self._names(row) if row is not None else ():
            self._ids.pop(known, None)
        return row

    def rows(self) -> list[SessionSummary]:
        """Return all rows."""
        return list(self._rows.values())

    def keep_only(self, ids: set[str]) -> None:
        """Remove the rows of all sessions but these."""
        for gone in self._rows.keys() - ids:
            self.remove_row(gone)

    def _names(self, row: SessionSummary) -> list[str]:
        shown = [dialect.public_ids(row.session, row.ext) for dialect in self._dialects().values()]
        return [row.session, *(name for names in shown for name in names)]
