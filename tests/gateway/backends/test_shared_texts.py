"""The text that streams over a connection of many sessions goes to the session that it names."""

from __future__ import annotations

from dragoman.gateway.backends.shared_texts import SharedTexts


class Sink:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def add_text(self, text: str, _at: int, _session: str) -> bool:
        self.texts.append(text)
        return True


def test_each_piece_goes_to_the_session_that_it_names() -> None:
    texts, one, other = SharedTexts(), Sink(), Sink()
    texts.note("s1", one.add_text)
    texts.note("s2", other.add_text)
    assert texts.add_text("a", 0, "s1")
    assert texts.add_text("b", 0, "s2")
    assert (one.texts, other.texts) == (["a"], ["b"])


def test_a_piece_of_a_session_that_streams_no_more_is_not_taken() -> None:
    texts, one = SharedTexts(), Sink()
    texts.note("s1", one.add_text)
    texts.note("s1", None)
    assert not texts.add_text("a", 0, "s1")


def test_no_sink_is_kept_once_they_are_cleared() -> None:
    texts, one = SharedTexts(), Sink()
    texts.note("s1", one.add_text)
    texts.clear()
    assert not texts.add_text("a", 0, "s1")
