"""The keys that decide who may use a route: their errors, and their combined effect."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dragoman.gateway.config.access import resolve_access
from dragoman.gateway.config.check import check
from dragoman.gateway.config.model import Auth, Route
from dragoman.gateway.endpoint import parse

WS, POD, PANDO = "smooth+ws://127.0.0.1:0/ws", "pod+unix:/run/p", "pando+tcp://127.0.0.1:0"
TOKENS = Auth(tokens={"a": "x" * 16})


def route(*listen: str, share: str = "auto") -> Route:
    return Route(name="r", listen=tuple(map(parse, listen)), upstream=parse("pod+unix:/u"), share=share)  # type: ignore[arg-type]  # a parameter of the test


@pytest.mark.parametrize(
    ("listen", "share", "auth", "authenticated", "owned"),
    [
        ((WS,), "auto", Auth(), False, "all"),
        ((WS,), "auto", TOKENS, True, "owner"),
        ((WS,), "all", TOKENS, True, "all"),
        ((POD,), "auto", Auth(), False, "all"),
        ((POD,), "auto", TOKENS, True, "owner"),
        ((POD,), "owner", Auth(), True, "owner"),
        ((f"{POD}?uid=1000",), "auto", Auth(), True, "owner"),
        ((f"{POD}?gid=1000",), "auto", Auth(), True, "owner"),
        ((PANDO,), "auto", TOKENS, False, "all"),
    ],
)
def test_sessions_belong_to_their_owner_where_clients_are_authenticated(
    listen: tuple[str, ...], share: str, auth: Auth, authenticated: bool, owned: str
) -> None:
    made = resolve_access(route(*listen, share=share), auth)
    assert (made.authenticated, made.share) == (authenticated, owned)


def problems(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "c.toml"
    path.write_text(text)
    return [f"{problem.line}: {problem.path}: {problem.text}" for problem in check(path).errors]


def test_a_listener_that_cannot_tell_clients_apart_is_refused_if_sessions_have_owners(tmp_path: Path) -> None:
    text = f'[[route]]\nlisten = ["{WS}", "{PANDO}"]\nupstream = "pod+unix:/u"\nshare = "owner"\n'
    apart = "cannot tell its clients apart, so no session can have an owner"
    assert problems(tmp_path, text) == [
        f"2: route[0].listen[0]: {WS} {apart}; configure [auth.tokens]",
        f'2: route[0].listen[1]: {PANDO} {apart}; give it a route of its own with `share = "all"`',
    ]


@pytest.mark.parametrize("pando", [PANDO, "pando+dir:/"])  # unlike `pod+dir:`, which has Unix sockets
def test_a_listener_that_cannot_tell_clients_apart_is_refused_beside_one_with_tokens(
    tmp_path: Path, pando: str
) -> None:
    text = (
        f'[auth]\ntokens = {{ a = "{"x" * 16}" }}\n[[route]]\nlisten = ["{WS}", "{pando}"]\nupstream = "pod+unix:/u"\n'
    )
    (problem,) = problems(tmp_path, text)
    assert problem.startswith("4: route[0].listen[1]: pando")


@pytest.mark.parametrize(("share", "refused"), [("", True), ('share = "all"\n', False)])
def test_a_listener_that_cannot_tell_clients_apart_is_refused_beside_one_with_roles(
    tmp_path: Path, share: str, refused: bool
) -> None:
    roles = '[route.roles]\n"*" = ["watch"]\n'
    text = f'[[route]]\nlisten = ["{POD}", "{PANDO}"]\nupstream = "pod+unix:/u"\n{share}{roles}'
    found = problems(tmp_path, text)
    assert [problem.startswith("2: route[0].listen[1]: pando") for problem in found] == ([True] if refused else [])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("env:DRAGOMAN_TEST_NOT_SET", "the environment variable DRAGOMAN_TEST_NOT_SET is not set"),
        ("", "a token of 0 characters can be guessed"),
        ("file:/no/such/file", "/no/such/file"),
        (r"a token of 16 or more characters\n# its comment", "a token has only one line"),
        ("short", "a token of 5 characters can be guessed; write at least 16 random ones"),
    ],
)
def test_a_token_that_cannot_be_used_is_refused(tmp_path: Path, value: str, words: str) -> None:
    text = f'[auth.tokens]\na = "{value}"\n[[route]]\nlisten = ["{WS}"]\nupstream = "pod+unix:/u"\n'
    (problem,) = problems(tmp_path, text)
    assert problem.startswith("2: auth.tokens.a: ")
    assert words in problem


@pytest.mark.parametrize("missing", ["jwt", "cryptography"])
def test_a_missing_library_of_jwt_is_an_error_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.delitem(sys.modules, "dragoman.gateway.identity.json_web_tokens", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    text = f"[auth.jwt]\nsecret = '{'s' * 32}'\naudience = 'a'\n"
    (line,) = (line for line in problems(tmp_path, text) if "pip" in line)
    assert f"import of {missing} halted" in line, "the cause: the package may have been replaced under a gateway"
    assert line.endswith(f"install the extra: {sys.executable} -m pip install 'dragoman[jwt]'")


def test_one_token_for_two_names_is_refused(tmp_path: Path) -> None:
    token = "x" * 16
    text = f'[auth.tokens]\na = "{token}"\nb = "{token}"\n[[route]]\nlisten = ["{WS}"]\nupstream = "pod+unix:/u"\n'
    assert problems(tmp_path, text) == ["3: auth.tokens.b: the same token as 'a': give each name a token of its own"]


@pytest.mark.parametrize("listen", ["smooth+ws://0.0.0.0:0/ws", "smooth+ws://[::]:0/ws", "pando+tcp://192.0.2.7:40000"])
def test_a_public_listener_without_authentication_is_refused(tmp_path: Path, listen: str) -> None:
    text = f'[[route]]\nlisten = ["{listen}"]\nupstream = "pod+unix:/u"\n'
    (problem,) = problems(tmp_path, text)
    assert problem.startswith(f"2: route[0].listen[0]: {listen} would accept clients from other machines")
    assert "or write `insecure = true` if that is intended" in problem
    assert problems(tmp_path, f"{text}insecure = true\n") == []


@pytest.mark.parametrize(
    ("keys", "at", "words"),
    [
        ("", "auth.jwt", "write `secret` for HS256, or `jwks` for RS256 and ES256"),
        (
            f"secret = '{'x' * 32}'\njwks = 'https://idp.example/keys'",
            "auth.jwt.jwks",
            "write either `secret` or `jwks`",
        ),
        ("secret = 'short'", "auth.jwt.secret", "a secret of 5 characters is too short for HS256; write 32"),
        ("jwks = 'keys.json'", "auth.jwt.jwks", "no such file: "),
        ("jwks = 'ftp://idp.example/keys'", "auth.jwt.jwks", "write the path of a file, or an https URL"),
        ("jwks = 'http://idp.example/keys'", "auth.jwt.jwks", "keys from another machine need https"),
    ],
)
def test_keys_of_tokens_that_cannot_be_used_are_refused(tmp_path: Path, keys: str, at: str, words: str) -> None:
    text = f'[auth.jwt]\naudience = "us"\n{keys}\n[[route]]\nlisten = ["{WS}"]\nupstream = "pod+unix:/u"\n'
    (problem,) = problems(tmp_path, text)
    assert f"{at}: {words}" in problem


@pytest.mark.parametrize("jwks", ["https://idp.example/keys", "http://127.0.0.1:8080/keys", "http://localhost/keys"])
def test_keys_of_tokens_come_by_https_or_from_this_machine(tmp_path: Path, jwks: str) -> None:
    text = f'[auth.jwt]\naudience = "us"\njwks = "{jwks}"\n[[route]]\nlisten = ["{WS}"]\nupstream = "pod+unix:/u"\n'
    assert problems(tmp_path, text) == []


def test_a_public_listener_with_tokens_is_accepted(tmp_path: Path) -> None:
    tokens = f'[auth.tokens]\na = "{"x" * 16}"\n'
    text = f'{tokens}[[route]]\nlisten = ["smooth+ws://0.0.0.0:0/ws"]\nupstream = "pod+unix:/u"\n'
    assert problems(tmp_path, text) == []


AUTH = "[auth.tokens]\na = '0123456789abcdef'\n"


@pytest.mark.parametrize(
    ("listen", "upstream", "more", "key", "words"),
    [
        (WS, "pod+unix:/u", AUTH, "upstream", "only a WebSocket has a place for the token"),
        (WS, "smooth+ws://h/ws?token=env:PATH", AUTH, "upstream", "exclude each other"),
        ("pod+unix:TMP/p", "smooth+ws://h/ws", AUTH, "listen[0]", "no token to pass on"),
        (WS, "smooth+ws://h/ws", f"share = 'all'\n{AUTH}", "share", "write share = 'owner'"),
        (WS, "smooth+ws://h/ws", "", "listen[0]", "configure [auth]"),
    ],
)
def test_a_route_that_cannot_pass_on_tokens_is_refused(
    tmp_path: Path, listen: str, upstream: str, more: str, key: str, words: str
) -> None:
    text = f"[[route]]\nlisten = ['{listen}']\nupstream = '{upstream}'\nupstream_auth = 'forward'\n{more}"
    (problem,) = problems(tmp_path, text.replace("TMP", str(tmp_path)))
    assert f": route[0].{key}: " in problem
    assert words in problem
