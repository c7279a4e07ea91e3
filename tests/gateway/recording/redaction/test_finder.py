from __future__ import annotations

import base64
import importlib
import json
import re
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from random import Random
from types import FrameType
from typing import Any

import pytest
from msgspec import structs

from dragoman.gateway import registry
from dragoman.gateway.recording.redaction import finder as finder_module
from dragoman.gateway.recording.redaction.finder import UNSEARCHED, WORDS_MAX, Detector, Finder, SeenText
from dragoman.gateway.recording.redaction.prefixed_keys import BEYOND, PIECE
from dragoman.gateway.recording.redaction.rules import pattern as own_pattern
from dragoman.gateway.recording.redaction.shapes import BUILT_IN, USER_INFO
from dragoman.gateway.recording.redaction.spans import BINARY_HEAD, Span, layers, replaced
from dragoman.mappings.errors import ConfigError
from tests.dialects import parts
from tests.gateway.recording.redaction.corpus import PRIVATE, SAID, SHAPES, escaped

FINDER = Finder(BUILT_IN)
DETECTORS = [shape for shape in BUILT_IN if isinstance(shape, Detector)]


def marked(text: str) -> str:
    return replaced(text, FINDER.find(text), lambda kind, _secret: f"<{kind}>")


@pytest.mark.parametrize(("kind", "before", "secret", "behind"), SAID)
def test_a_detector_finds_the_secret_without_the_text_around_it(
    kind: str, before: str, secret: str, behind: str
) -> None:
    assert marked(before + secret + behind) == f"{before}<{kind}>{behind}"


@pytest.mark.parametrize(("kind", "before", "secret", "behind"), SAID)
def test_a_secret_is_found_in_every_form_of_escapes(kind: str, before: str, secret: str, behind: str) -> None:
    for form in escaped(secret):
        found = marked(json.dumps({"cmd": before})[:-2] + form + json.dumps(behind)[1:] + "}")
        assert json.loads(found) == {"cmd": f"{before}<{kind}>{behind}"}, form


@pytest.mark.parametrize(("kind", "before", "secret", "behind"), SAID)
def test_a_secret_is_found_three_documents_deep(kind: str, before: str, secret: str, behind: str) -> None:
    deep: object = before + secret + behind
    for _ in range(3):
        deep = json.dumps({"arguments": deep})
    found = marked(str(deep))
    for _ in range(3):
        found = json.loads(found)["arguments"]
    assert found == f"{before}<{kind}>{behind}"


def test_a_number_under_a_secret_key_becomes_a_string_at_any_depth() -> None:
    inner = json.dumps({"password": 4711, "port": 5432})
    found = json.loads(marked(json.dumps({"arguments": inner})))["arguments"]
    assert json.loads(found) == {"password": "<credential>", "port": 5432}


def test_a_setting_s_value_is_a_secret_by_the_key_beside_it() -> None:
    assert marked('{"key": "providers.x.api_key", "value": "z"}') == (
        '{"key": "providers.x.api_key", "value": "<credential>"}'
    )


@pytest.mark.parametrize(
    "text",
    [
        '["sshpass","-p","%s"]',
        "['sshpass','-p','%s']",
        '["docker", "login","-p","%s"]',
        '["mysqldump","--password","%s"]',
        "mysqldump\n--password %s",
    ],
)
def test_a_password_option_is_found_in_a_text_without_any_other_sign(text: str) -> None:
    assert marked(text % "hunter2x") == text % "<credential>"


def test_overlapping_secrets_are_removed_as_one() -> None:
    assert marked(f"Authorization: Bearer {SHAPES['jwt']}") == "Authorization: Bearer <jwt>"
    assert marked(f"https://x:{SHAPES['github_token']}@host/") == "https://<userinfo>@host/"


def test_text_that_ends_within_a_secret_is_open_from_the_start_of_the_secret() -> None:
    for length in range(4, 36):
        found = FINDER.find_open(f"it is {SHAPES['api_key'][:length]}")
        assert found is not None, length
        assert found.start == 6


@pytest.mark.parametrize(
    "text",
    [
        "password:\n\n  hunt",
        'api_key =\n"hunt',
        "Authorization:\n Basic\n dXNlcg",
        "Cookie:\n session=abcd",
        f"machine {'h' * 128}\nlogin {'m' * 128}\npassword\nhunt",
        f"bearer\n{'a1' * 8}",
        f"AKIA{'A' * 16}\n{'a1' * 8}",
    ],
)
def test_a_secret_that_is_cut_off_on_a_line_after_its_name_is_open(text: str) -> None:
    found = FINDER.find_open("prose\n" * 100 + text)
    assert found is not None
    assert found.end == 600 + len(text)


@pytest.mark.parametrize("text", ["the end of a sentence.", "nothing to see", "a list: one, two", '{"a": 1}', ""])
def test_ordinary_text_is_not_open(text: str) -> None:
    assert FINDER.find_open(text) is None


def test_lower_case_letters_longer_than_their_capitals_shift_no_position() -> None:
    assert marked("İİİ PASSWORD=a1b2c3d4") == "İİİ PASSWORD=<credential>"


def test_secrets_and_binary_data_are_found_at_each_place_around_the_end_of_a_piece_of_a_large_text() -> None:
    key, image = SHAPES["github_token"], IMAGE[:600] + LIKE_A_KEY + IMAGE[:400]
    for at in (*range(PIECE - 640, PIECE - 64, 32), *range(PIECE - 64, PIECE + 8)):
        before = f"{'some words ' * (at // 11)}{' ' * (at % 11)}"
        assert FINDER.find(f"{before}{key} of a text") == [Span(at, at + len(key), "github_token")], at
        assert not FINDER.find(f"{before}{image} of a text"), at


def test_a_key_whose_prefix_begins_with_that_of_another_kind_is_found_at_each_place_after_the_end_of_a_piece() -> None:
    key = f"{'A' * 21}1{'b' * 80}"  # of Twitter; the token of a Telegram bot begins with two of them
    for at in range(PIECE, PIECE + 2 * BEYOND):
        assert FINDER.find(f"{'words ' * (at // 6)}{' ' * (at % 6)}{key}") == [Span(at, at + len(key), "twitter_token")]


def test_the_words_of_a_large_text_are_not_in_memory_at_once() -> None:
    text = "a word in İ " * 200_000
    tracemalloc.start()
    found = Finder(BUILT_IN).find(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert not found
    assert peak < 8 * len(text)


def malicious() -> Iterator[tuple[str, str]]:
    """Return texts of 50,000 characters that make a backtracking search slow."""
    for piece in (
        *("sk-", "sk-a", "eyJ", "eyJaaaaaaaa.", "AKIA", "ghp_", "://", "://a:", "://a:b", "bearer ", "bearer=aaaa"),
        *(
            "password=",
            "password:",
            'password="',
            "password='",
            "pwd=a1(",
            "secret=secret",
            "token=",
            "authorization: ",
        ),
        *(
            "?token=",
            "code 1234",
            "-----BEGIN ",
            f"-----BEGIN RSA {PRIVATE}-----",
            "-----",
            '"key":"',
            '"key":"password",',
        ),
        *("\\", '\\"', "\\u", "\\u0073", "\\ud83d", "\\\\u0073k-", '{"', "[", '{"a":', "a", " ", "\n"),
    ):
        yield piece, (piece * 50_000)[:50_000]


class Counting:
    """A pattern that counts how many characters its matches and failures read at least."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern = pattern
        self.tries = 0
        self.end = -1
        self.again = 0

    def match(self, text: str, at: int) -> re.Match[str] | None:
        self.tries += 1
        found = self.pattern.match(text, at)
        if found is not None:
            self.again += max(0, self.end - at)
            self.end = max(self.end, found.end())
        return found


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: detector.kind)
def test_no_character_is_matched_twice_by_a_detector(detector: Detector) -> None:
    for piece, text in malicious():
        counting: Any = Counting(detector.pattern)  # it is asked to match alone
        for anchor in detector.anchors:
            one = Detector(kind=detector.kind, anchors=(anchor,), pattern=counting, folded=detector.folded)
            list(one._candidates(text, text.lower()))
            assert counting.again == 0, piece
            assert counting.tries <= len(text) // 3 + 1, piece
            counting.end = -1


def given_back(part: Any) -> Iterator[int]:
    """Return the limits of the repetitions that backtrack if the pattern after them fails."""
    if type(part).__name__ == "SubPattern" or isinstance(part, list | tuple):
        items = list(part)
        if items and str(items[0]) in ("MAX_REPEAT", "MIN_REPEAT"):
            yield int(items[1][1])
        for item in items:
            yield from given_back(item)


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: detector.kind)
def test_a_detector_matches_each_text_in_one_way_only(detector: Detector) -> None:
    parse = importlib.import_module("re._parser").parse
    for pattern in filter(None, (detector.pattern, detector.opens)):
        assert max(given_back(parse(pattern.pattern)), default=0) <= 40, pattern.pattern


def test_a_text_is_one_pass_of_each_detector(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    plain = Detector._candidates

    def counted(self: Detector, text: str, folded: str) -> Iterator[re.Match[str]]:
        seen.append(len(text))
        return plain(self, text, folded)

    monkeypatch.setattr(Detector, "_candidates", counted)
    text = ("password=password:sk-sk-eyJ.eyJ.://a:b" + "\\" * 8) * 2_000
    FINDER.find(text)
    assert 0 < sum(seen) <= len(BUILT_IN) * sum(len(layer.text) for layer in layers(text))


def test_a_search_of_another_thread_between_any_two_steps_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finder_module, "KNOWN_MAX", 2)
    steps: list[int] = []
    assert is_all_found(lambda _finder, step: steps.append(step))
    assert [step for step in steps if not is_all_found(partial(search_others_at, step))] == []


def is_all_found(meanwhile: Callable[[Finder, int], None]) -> bool:
    """Return True if a finder finds all secrets of a text while `meanwhile` is called before each bytecode."""
    finder = Finder([USER_INFO])
    search_others(finder)
    with between_bytecodes(partial(meanwhile, finder)):
        found, unfinished = finder.find("see ://a:b@ and ://c:d"), finder.find_open("see ://a:b@ and ://c:d")
    return found == [Span(7, 10, "userinfo")] and unfinished == Span(19, 22, "userinfo")


def search_others_at(step: int, finder: Finder, at: int) -> None:
    """Search other texts before this one bytecode."""
    if at == step:
        search_others(finder)


def search_others(finder: Finder) -> None:
    """Search other texts until nothing is kept of earlier ones."""
    for at in range(4):
        finder.find(f"some text {at}")
        finder.find_open(f"some text {at}")


@contextmanager
def between_bytecodes(act: Callable[[int], None]) -> Iterator[None]:
    """Call `act` before each bytecode of the module under test, with its number from 1."""
    number = count(1)

    def trace(frame: FrameType, what: str, _argument: Any) -> Any:
        if frame.f_code.co_filename != finder_module.__file__:
            return None
        frame.f_trace_opcodes = True
        if what == "opcode":
            act(next(number))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def test_a_text_with_more_secrets_than_the_limit_is_one_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[re.Match[str]] = []

    def judge(found: re.Match[str]) -> bool:
        judged.append(found)
        return True

    monkeypatch.setattr(finder_module, "FINDS_MAX", 8)
    counting = structs.replace(USER_INFO, judge=judge)
    text = "://a:b@" * 1000
    assert Finder([counting]).find(text) == [Span(0, len(text), UNSEARCHED)]
    assert len(judged) == 8 + 1


def test_a_text_with_as_many_secrets_as_the_limit_keeps_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finder_module, "FINDS_MAX", 8)
    assert len(FINDER.find("://a:b@ " * 8)) == 8


def test_a_large_text_with_more_anchors_than_the_limit_is_one_secret_without_trying_patterns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(finder_module, "TRIES_MAX", 100)
    counting = Counting(USER_INFO.pattern)
    finder = Finder([structs.replace(USER_INFO, pattern=counting)])
    text = "://" * 101
    assert finder.find(text) == [Span(0, len(text), UNSEARCHED)]
    assert counting.tries == 0
    assert finder.find("://" * 100 + "x") == []
    assert counting.tries == 100


@pytest.mark.parametrize(
    "text",
    [
        "(a|aa){1,64}b",
        "(?:a{1,9}){1,9}",
        "(?:ab|cd|ef){6}",
        "a?a?a?a?a?a?a?a?a?aaaaaaaaa",
        "[a-z]{1,64}@[a-z]{1,64}",
        "(?=(?:a|aa){64}b)a",
        "(?>(?:a|aa){64}b)",
    ],
)
def test_a_pattern_with_many_ways_to_match_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="more than 256 ways"):
        own_pattern("customer", text)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("CUST-[0-9]{8}", "CUST-12345678"),
        ("[a-z]{1,64}+@[a-z]{1,64}+", "someone@somewhere"),
        (r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}", "192.168.0.1"),
        ("(?:foo|bar|baz)-[0-9]{1,64}", "baz-1"),
        ("(?>a|b){1,64}+c", "ababc"),
        (r"(['|])([0-9])\2\1", "|77|"),
        ("(?i)cust-[0-9]{8}", "CUST-12345678"),
    ],
)
def test_a_pattern_with_few_ways_to_match_finds_what_it_names(text: str, secret: str) -> None:
    finder = Finder([own_pattern("customer", text)])
    assert [span.end - span.start for span in finder.find(f"<{secret}>")] == [len(secret)]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("x)(y", "unbalanced parenthesis"),
        ("(?(1)a|b)", "invalid group reference"),
        (f"a{{1,{10**20}}}", "repetition number is too large"),
        (f"{'(' * 490}a{')' * 490}", "maximum recursion depth"),
        ("(?P<bare>CUST)-[0-9]", "a group 'bare'"),
        ("(?P<secret>CUST)-[0-9]", "a group 'secret'"),
    ],
)
def test_an_invalid_pattern_is_refused(text: str, cause: str) -> None:
    with pytest.raises(ConfigError, match=cause):
        own_pattern("customer", text)


def test_words_without_secrets_are_remembered_as_clean() -> None:
    finder = Finder(BUILT_IN)
    token = SHAPES["github_token"]
    assert finder.is_clean([])
    assert finder.is_clean(["run_end", "idle", "1eb38050-bf21-5d11-bf20-e54aa4afc63d"])
    assert finder.is_clean(["idle", "run_end"])
    for _ in range(2):
        assert not finder.is_clean(["run_end", token])
        assert not finder.is_clean([token, "new"])
    assert finder.is_clean(["new"])


@pytest.mark.parametrize("said", SAID, ids=[f"{at}-{said[0]}" for at, said in enumerate(SAID)])
def test_a_secret_is_not_clean_between_texts_that_begin_or_end_a_secret(said: tuple[str, str, str, str]) -> None:
    text = "".join(said[1:])
    others = [other for _, before, secret, behind in SAID for other in (before, before + secret[:3], behind)]
    others += ['password="', "secret:", '{"key": "password", "value": "', "code ", "\u0130", "\\", '"', "'"]
    for other in others:
        assert not Finder(BUILT_IN).is_clean([other, text])
        assert not Finder(BUILT_IN).is_clean([text, other])


@pytest.mark.parametrize("text", ["code 123456", "the secret=letmein", "password: letmein"])
def test_a_secret_that_is_a_whole_text_is_found_among_others(text: str) -> None:
    for other in ("token:", "password:", "x", "code ", "\u212a\u0130"):
        assert not Finder(BUILT_IN).is_clean([other, text, other])


def test_the_number_of_words_remembered_as_clean_is_bounded() -> None:
    finder = Finder(BUILT_IN)
    for n in range(3 * WORDS_MAX):
        assert finder.is_clean([f"word-{n}", "x" * 1_000])
    assert sum(map(len, finder._clean)) < 16 * WORDS_MAX


# -- binary data (docs/recording.md, section "What is found") -----------------------------------------


LIKE_A_KEY = "+sk" + "aB3" * 40  # as a token of Sanity: an image of 5 MiB holds about two such texts by chance
IMAGE = base64.b64encode(Random(1).randbytes(3000)).decode()
PNG = IMAGE + LIKE_A_KEY + IMAGE
KEY = "ghp_" + "a1B2c3D4" * 4 + "e5F6"

CARRIERS = {name: parts(name).image for name in registry.OURS} | {"JSON in JSON": '{"output":"{\\"data\\":\\"%s\\"}"}'}


def test_the_text_in_the_image_looks_like_a_key() -> None:
    assert [span.kind for span in FINDER.find(LIKE_A_KEY)] == ["sanity_token"]


@pytest.mark.parametrize("carrier", CARRIERS.values(), ids=CARRIERS)
def test_an_image_stays_as_it_is_and_the_key_beside_it_is_found(carrier: str) -> None:
    text = carrier % PNG
    assert FINDER.find(text) == []
    assert marked(f'{{"input":"{KEY}","more":{text},"last":"{KEY}"}}') == (
        f'{{"input":"<github_token>","more":{text},"last":"<github_token>"}}'
    )


def test_a_key_in_a_data_url_is_found_if_it_is_not_in_base64() -> None:
    assert marked(f"data:text/plain,{KEY}") == "data:text/plain,<github_token>"


@pytest.mark.parametrize("name", ["password", "api_key"])
def test_a_secret_value_that_is_binary_data_is_found_whole(name: str) -> None:
    assert marked(f'{{"{name}":"{PNG}","rest":1}}') == f'{{"{name}":"<credential>","rest":1}}'


def test_a_long_token_without_signs_of_binary_data_is_found_whole() -> None:
    claims = base64.urlsafe_b64encode(b'{"sub":"' + b"abc" * 700 + b'"}').decode().rstrip("=")
    assert marked(f"see /eyJhbGciOiJIUzI1NiJ9.{claims}.c2lnbmF0dXJl now") == "see /<jwt> now"


def test_the_search_reads_only_the_beginning_of_binary_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in characters: a search of 5 MiB would take a second."""
    searched: list[str] = []

    look = Finder._look

    def counted(finder: Finder, text: str) -> SeenText:
        searched.append(text)
        return look(finder, text)

    monkeypatch.setattr(Finder, "_look", counted)
    Finder(BUILT_IN).find(CARRIERS["codewhale"] % (IMAGE * 100))
    assert sum(map(len, searched)) < BINARY_HEAD + len(CARRIERS["codewhale"])
