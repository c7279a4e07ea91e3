"""Tables of handlers by the type of the event; mypy tests the types of their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.mappings.canonical.events import TextDelta, TextDone
from dragoman.mappings.handlers import Handlers, handler


def add_piece(texts: list[str], event: TextDelta) -> None:
    texts.append(event.text)


def add_text(texts: list[str], event: TextDelta | TextDone) -> None:
    texts.append(event.text)


HANDLERS: Handlers[list[str], [], None] = dict([handler(TextDelta, add_piece), handler(TextDone, add_text)])


def test_an_event_is_handled_by_the_function_in_the_row_of_its_type() -> None:
    assert (HANDLERS[TextDelta], HANDLERS[TextDone]) == (add_piece, add_text)


if TYPE_CHECKING:  # mypy must refuse both rows: it reports an `ignore` without an error
    handler(TextDone, add_piece)  # type: ignore[misc]  # the handler takes another type
    OTHER: Handlers[str, [], None] = dict([handler(TextDelta, add_piece)])  # type: ignore[arg-type]  # of another object
