"""The options of a replay, as its endpoint gives them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.gateway.endpoint import parse
from dragoman.gateway.replay.options import header, read_options, read_speed, read_until
from dragoman.mappings.errors import ConfigError
from tests.gateway.replay.recording_builder import SESSION, RecordingBuilder


def test_without_options_a_replay_is_strict_and_as_fast_as_recorded() -> None:
    options = read_options(parse("replay+file:/a/b.jsonl"))
    assert (options.path, options.spy, options.speed, options.auto) == (Path("/a/b.jsonl"), False, 1.0, False)
    assert (options.live, options.until, options.idle_cap) == (None, None, None)


def test_every_option_is_read() -> None:
    options = read_options(parse("replay+file:a?mode=spy&upstream=pod%2Bunix:/p&speed=x2&idle_cap=1.5&explain=yes"))
    assert (options.spy, str(options.live), options.speed, options.idle_cap) == (True, "pod+unix:/p", 2.0, 1.5)
    assert options.explain
    fork = read_options(parse("replay+file:a?until=turn:2&then=pod%2Bunix:/p&auto=yes"))
    assert (fork.until, str(fork.live), fork.auto) == (("turn", 2), "pod+unix:/p", True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("mode=loose", "mode 'loose': write strict or spy"),
        ("mode=spy", "needs the live backend as `upstream`"),
        ("upstream=pod%2Bunix:/p", "strict must not have it"),
        ("until=3", "belong together"),
        ("then=pod%2Bunix:/p", "belong together"),
        ("mode=spy&upstream=pod%2Bunix:/p&until=3&then=pod%2Bunix:/p", "use only one of them"),
        ("mode=spy&upstream=pod%2Bunix:/p&auto=yes", "leave out `auto`"),
        ("auto=maybe", "write yes or no"),
        ("idle_cap=-1", "write seconds"),
        ("idle_cap=soon", "write seconds"),
        ("speed=0", "write real, instant"),
        ("until=0&then=pod%2Bunix:/p", "write the number of a line"),
        ("until=line:3&then=pod%2Bunix:/p", "write the number of a line"),
    ],
)
def test_an_invalid_option_is_refused_with_the_valid_ones(options: str, words: str) -> None:
    with pytest.raises(ConfigError, match=r"replay[+]file:a: ") as caught:
        read_options(parse(f"replay+file:a?{options}"))
    assert words in str(caught.value)


def test_a_fork_point_is_a_line_or_a_turn() -> None:
    assert (read_until("17"), read_until("turn:3")) == (("line", 17), ("turn", 3))


def test_the_header_of_a_recording_is_read_and_a_missing_file_reported(tmp_path: Path) -> None:
    path = RecordingBuilder().write(tmp_path)
    assert header(parse(f"replay+file:{path}")).session == SESSION
    with pytest.raises(ConfigError, match="No such file"):
        header(parse(f"replay+file:{tmp_path}/none"))


def test_a_speed_is_a_word_or_a_number() -> None:
    assert [read_speed(text) for text in ("real", "instant", "4", "x4", "0.5")] == [1, 0, 4, 4, 0.5]


@pytest.mark.parametrize("text", ["", "fast", "0", "-1", "nan", "inf", "xx4"])
def test_an_invalid_speed_is_refused_with_the_valid_ones(text: str) -> None:
    with pytest.raises(ConfigError, match="write real, instant, or a factor"):
        read_speed(text)
