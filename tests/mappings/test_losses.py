"""Losses are counted by kind, field and reason, within limits."""

from __future__ import annotations

from msgspec import Struct

from dragoman.mappings.canonical import Command, commands
from dragoman.mappings.codec import Codec
from dragoman.mappings.dialect import Burst
from dragoman.mappings.losses import ROWS_MAX, SAMPLE_MAX, Losses, command_direction, sample_text
from dragoman.mappings.rules import Rules


class Word(Struct):
    text: str = ""


def test_a_loss_names_its_kind_field_and_reason() -> None:
    found = Losses()
    found.lose(Word(text="x"), "text", "too long")
    (loss,) = found.take_losses()
    assert (loss.kind, loss.field, loss.why, loss.sample, loss.count) == ("Word", "text", "too long", Word(text="x"), 1)


def test_equal_losses_are_one_row_with_the_first_sample() -> None:
    found = Losses()
    for text in "abc":
        found.lose(Word(text=text))
    (loss,) = found.take_losses()
    assert (loss.count, loss.sample) == (3, Word(text="a"))


def test_fields_and_reasons_are_rows_of_their_own() -> None:
    found = Losses()
    for field, why in (("a", ""), ("b", ""), ("b", "other")):
        found.lose(Word(), field, why)
    assert [loss.count for loss in found.take_losses()] == [1, 1, 1]


def test_losses_are_taken_once() -> None:
    found = Losses()
    found.lose(Word())
    assert len(found.take_losses()) == 1
    assert found.take_losses() == []


def test_a_loss_is_counted_without_encoding_what_is_lost() -> None:
    found, cannot_be_encoded = Losses(), object()
    found.lose(cannot_be_encoded)
    assert [loss.sample for loss in found.take_losses()] == [cannot_be_encoded]


def test_the_text_of_a_sample_is_json_with_a_bound_in_characters() -> None:
    assert sample_text(Word(text="x")) == '{"text":"x"}'
    text = sample_text(Word(text="ü🚀" * 10_000))
    assert len(text) == SAMPLE_MAX
    assert text.startswith('{"text":"ü🚀')


def test_the_text_of_a_sample_that_is_text_is_its_beginning() -> None:
    assert sample_text("x" * 10_000) == "x" * SAMPLE_MAX


def test_rows_above_the_limit_are_counted_as_other() -> None:
    found = Losses()
    for number in range(ROWS_MAX + 5):
        found.lose(Word(), str(number))
    found.lose(Word(), "0")
    taken = found.take_losses()
    assert len(taken) == ROWS_MAX + 1
    assert (taken[0].count, taken[-1].kind, taken[-1].count) == (2, "other", 5)


def test_each_command_is_written_under_its_own_id_and_the_others_are_counted() -> None:
    rules = Rules[[Losses], str]("test")
    rules.none("it cannot pause", commands.PauseTurn)

    @rules.rule(commands.Ping)
    def ping(command: commands.Ping, _context: Losses) -> tuple[str, ...]:
        return (command.request, "again")

    pings = [commands.Ping(request=request) for request in "ab"]
    direction = command_direction(Codec("test", str, max_depth=1), Rules[[], Command]("test"), rules)
    rendered = direction.write(Burst(items=[*pings, commands.PauseTurn()]))
    assert rendered.frames == [b'"a"', b'"again"', b'"b"', b'"again"']
    assert [(loss.kind, loss.why) for loss in rendered.losses] == [("PauseTurn", "it cannot pause")]
