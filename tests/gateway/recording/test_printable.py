from __future__ import annotations

import json

import pytest

from dragoman.gateway.recording.printable import printable, printable_json, sample


@pytest.mark.parametrize("text", ["Grüße 🦀\n\tja", "木曜日に届きます。", "عربي", ""])
def test_ordinary_text_is_printed_unchanged(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("a\rb", "a\\x0db"),
        ("\x9b31m", "\\x9b31m"),
        ("\x07", "\\x07"),
        ("abc\u202edef", "abc\\u202edef"),
        ("\x00", "\\x00"),
        ("a\u061cb\u2028c\u2029", "a\\u061cb\\u2028c\\u2029"),
        ("\ud800", "\\ud800"),
    ],
)
def test_control_characters_and_direction_marks_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_json_has_no_character_that_controls_a_terminal_and_means_the_same() -> None:
    text = "\x1b[2J\x9b31m\u202eGrüße 🦀\u2028\x7f"
    line = printable_json({text: text})
    assert line == line.translate({ord(one): None for one in "\x1b\x9b\u202e\u2028\x7f"})
    assert ("Grüße 🦀" in line, json.loads(line)) == (True, {text: text})


@pytest.mark.parametrize(
    ("text", "shown"), [("a\n  b", "a b"), ("abcdef", "abcdef"), ("abcdefg", "abcde…"), (" " * 30 + "a", "…")]
)
def test_a_sample_is_one_line_of_limited_length(text: str, shown: str) -> None:
    assert sample(text, 6) == shown
