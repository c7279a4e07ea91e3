"""Names in `roles` and `[principals]` that no client can have are errors of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.gateway.config.check import check

WS, POD = "smooth+ws://127.0.0.1:0/ws", "pod+unix:TMP/listen"
PANDO = "pando+tcp://127.0.0.1:0"
AUTH = "[auth.tokens]\nalice = 'aaaaaaaaaaaaaaaa'\n"
JWT = "[auth.jwt]\nsecret = 'ssssssssssssssssssssssssssssssss'\naudience = 'a'\n"


def faults(tmp_path: Path, name: str, listen: str, rest: str = "") -> list[str]:
    """Return the errors of a file that gives this name a role."""
    path = tmp_path / "c.toml"
    text = f"[[route]]\nlisten = ['{listen}']\nupstream = 'pod+unix:/u'\nshare = 'all'\n"
    text += f"roles = {{ '{name}' = ['send'] }}\n"
    path.write_text((text + rest).replace("TMP", str(tmp_path)))
    return [f"{problem.path}: {problem.text}" for problem in check(path).errors]


@pytest.mark.parametrize(
    ("name", "listen", "rest", "why"),
    [
        ("token:bob", WS, AUTH, "[auth.tokens] has no 'bob'"),
        ("jwt:bob", WS, AUTH, "[auth.jwt] is not configured"),
        ("group:ops", WS, AUTH, "[auth.jwt] is not configured"),
        ("cert:CN=bob", WS, AUTH, "no listener of the route gives its clients such names"),
        ("token:alice", POD, AUTH, "no listener of the route gives its clients such names"),
        ("uid:1000", WS, AUTH, "no listener of the route gives its clients such names"),
        ("uid:1001", f"{POD}?uid=1000", "", "`uid` and `gid` of the listeners do not allow it"),
        ("gid:1001", f"{POD}?gid=1000", "", "`uid` and `gid` of the listeners do not allow it"),
        ("local", WS, AUTH, "no listener of the route gives its clients such names"),
        ("gid:users", POD, "", "write its number"),
        ("uid:01000", POD, "", "write its number"),
        (
            "bob",
            WS,
            f"{AUTH}[principals]\nbob = ['uid:1000']\n",
            "no listener can name one of this person's principals",
        ),
        ("bob", WS, f"{AUTH}[principals]\nbob = []\n", "no listener can name one of this person's principals"),
    ],
)
def test_a_role_that_no_client_can_have_is_an_error(
    tmp_path: Path, name: str, listen: str, rest: str, why: str
) -> None:
    (text,) = faults(tmp_path, name, listen, rest)
    assert text.startswith("route[0].roles.")
    assert f"no client of this route can be {name!r}, so nobody would have this role: {why}" in text


@pytest.mark.parametrize(
    ("name", "listen", "rest"),
    [
        ("token:alice", WS, AUTH),
        ("jwt:bob", WS, JWT),
        ("group:ops", WS, JWT),
        ("*", WS, AUTH),
        ("local", PANDO, ""),
        ("uid:1001", POD, ""),
        ("uid:1000", f"{POD}?uid=1000", ""),
        ("uid:1001", f"{POD}?uid=1000&gid=7", ""),
        ("gid:1001", f"{POD}?uid=1000", ""),
        ("bob", POD, "[principals]\nbob = ['uid:1000']\n"),
    ],
)
def test_a_role_that_a_client_can_have_is_accepted(tmp_path: Path, name: str, listen: str, rest: str) -> None:
    assert faults(tmp_path, name, listen, rest) == []


def test_a_principal_of_an_undefined_token_is_a_configuration_error(tmp_path: Path) -> None:
    rest = f"{AUTH}[principals]\nalice = ['token:alice', 'token:alcie']\n"
    assert faults(tmp_path, "token:alice", WS, rest) == [
        "principals.alice[1]: no client can be 'token:alcie': [auth.tokens] has no 'alcie'"
    ]


def test_a_principal_of_a_user_without_a_number_or_of_two_persons_is_an_error(tmp_path: Path) -> None:
    rest = f"{AUTH}[principals]\nalice = ['uid:root', 'uid:0']\nbob = ['uid:7', 'uid:0']\n"
    assert faults(tmp_path, "token:alice", WS, rest) == [
        "principals.alice[0]: no client can be 'uid:root': write its number",
        "principals.bob[1]: 'uid:0' is alice already: a principal is one person",
    ]
