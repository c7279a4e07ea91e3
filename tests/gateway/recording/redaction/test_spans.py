from __future__ import annotations

import json

import pytest

from dragoman.gateway.recording.redaction.spans import (
    BINARY_HEAD,
    BINARY_LEAST,
    LAYERS_MAX,
    layers,
    undecided,
    unescaped,
    without_binary,
)
from tests.gateway.recording.redaction.corpus import escaped

WORDS = 'a"b\\c/d\b\f\n\r\té€😀'


@pytest.mark.parametrize("form", escaped(WORDS))
def test_every_escape_of_json_means_its_character(form: str) -> None:
    assert unescaped(form) == WORDS


def test_the_innermost_layer_of_json_in_json_is_the_text() -> None:
    text = WORDS
    for _ in range(4):
        text = json.dumps(text)[1:-1]
    *_, innermost = layers(text)
    assert innermost.text == unescaped(WORDS)  # it holds a backslash itself


def test_a_character_of_any_layer_has_its_place_in_the_outermost_text() -> None:
    inner = "x😀\n/k"
    text = json.dumps(json.dumps(inner))
    layer = list(layers(text))[2]
    start = layer.text.index("😀")
    place, end = layer.place(start), layer.place(start + 1)
    assert json.loads(json.loads(f'"\\"{text[place:end]}\\""')) == "😀"
    assert text[layer.place(layer.text.index("k")) :].startswith("k")


def test_binary_data_keeps_its_head_and_a_character_behind_it_its_place() -> None:
    data = "abc+" * BINARY_LEAST
    text = json.dumps(f"x\n {data} y {data} z")
    whole = layers(text)[1]
    layer = without_binary(whole)
    head = data[:BINARY_HEAD]
    assert layer.text == f'"x\n {head} y {head} z"'
    assert [text[layer.place(layer.text.index(letter))] for letter in "xyz"] == ["x", "y", "z"]
    assert layer.place(layer.text.index(" y")) == text.index(" y"), "the data belongs to what is left of it"


@pytest.mark.parametrize("data", ["abc+" * (BINARY_LEAST // 4 - 1), "abcd" * BINARY_LEAST])
def test_short_texts_and_texts_without_signs_are_no_binary_data(data: str) -> None:
    (layer,) = layers(data)
    assert without_binary(layer) is layer


@pytest.mark.parametrize(
    ("text", "sure"),
    [
        ("abc", "abc"),
        ("abc\\", "abc"),
        ("abc\\u", "abc"),
        ("abc\\u00", "abc"),
        ("abc\\u0073", "abc\\u0073"),
        ("abc\\ud83d", "abc"),
        ("abc\\ud83d\\", "abc"),
        ("abc\\ud83d\\ude0", "abc"),
        ("abc\\ud83d\\ude00", "abc\\ud83d\\ude00"),
    ],
)
def test_an_escape_that_is_cut_off_is_undecided(text: str, sure: str) -> None:
    assert text[: undecided(text)] == sure


def test_nested_escapes_are_read_up_to_a_maximum_depth() -> None:
    assert len(list(layers("\\" * 4096))) <= LAYERS_MAX + 1


def test_a_text_without_escapes_is_one_layer() -> None:
    assert [layer.text for layer in layers("C:x")] == ["C:x"]
