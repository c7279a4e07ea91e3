"""The text that streams in the sessions of one connection: each further piece goes to the session that it names."""

from __future__ import annotations

from dragoman.mappings.dialect import TextSink


class SharedTexts:
    """The sinks of the sessions that stream text, by their ids at the backend."""

    def __init__(self) -> None:
        self._sinks: dict[str, TextSink] = {}

    def note(self, session: str, sink: TextSink | None) -> None:
        """Give further pieces of a session's text to this sink; None ends that."""
        if sink is not None:
            self._sinks[session] = sink
        else:
            self._sinks.pop(session, None)

    def clear(self) -> None:
        """Forget all sinks, after the end of a session; each session that streams notes its own again."""
        self._sinks.clear()

    def add_text(self, text: str, at: int, session: str) -> bool:
        """Give a further piece of text to its session; return False if that does not take it."""
        sink = self._sinks.get(session)
        return sink is not None and sink(text, at, session)
