"""Names with values: `PASSWORD=...`, `"api_key": "..."`, and the names that a user's JSON paths end in.

Escaped quotes need no pattern: they are plain ones a layer below (escapes.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from dragoman.gateway.recording.redaction.detectors import Detector, Judge, value_of

__all__ = ["ASSIGNMENTS", "NAME_MAX", "TOKEN", "ends_as_secret", "is_secret_name", "named"]

ANCHORS = ("passw", "passphrase", "pwd", "secret", "credential", "authorization", "key")
NAMES = (
    r"(?:passw(?:or)?d|passphrase|pwd|secret|credential|authorization|"
    r"(?:(?<=api)|(?<=api[_-])|(?<=access)|(?<=access[_-])|(?<=private)|(?<=private[_-]))key)(?:[_-]?key|s)?"
)
"""Names whose values are secrets, also as the end of a longer name: `DB_PASSWORD`, `clientSecret`."""

NAME_MAX = 64  # characters at the end of a name that tell whether it is one of those
SECRET_NAME = re.compile(rf"(?i:{NAMES}|token|auth_?context)\Z")

WORDS = re.compile(
    "(?i:string|str|text|none|null|true|false|undefined|password|secret|token|required|optional|changed|hidden|masked|"
    r"redacted|example|unknown|empty|value|bearer|basic)\Z"
)
"""What stands for a value in schemas, forms and prose."""

CODE = re.compile(
    r"(?:\$[A-Z_][A-Z0-9_]*|\$[a-z_]+|\$?\{+[^{}]*\}+|%[a-z]|%\([a-z_]+\)s|<[^<>]*>|[*.•]+|\[[^\[\]]*\])\Z"
    r"|(?:os|process|env|self|config|settings|request|req|args|params|this)[.\[(]"
)
"""How code and templates refer to a value that stands elsewhere."""

QUOTED = r"\"(?P<quoted>(?:[^\"\\\n]|\\.)*+)|'(?P<single>(?:[^'\\\n]|\\.)*+)"
BARE = r"[^\s\"'`\\,;&<>(){}\[\]]"


def _assigned(kind: str, anchors: tuple[str, ...], names: str, judge: Judge) -> Detector:
    """A name, `:` or `=`, and a value in quotes, or without but with a digit near its begin."""
    begin = (
        rf"(?i:{names})"
        r"(?:(?P<quote>[\"'])\s{0,8}+[:=]|\s{0,4}+(?:=>|:=|[:=]))\s{0,8}+"
    )
    return Detector(
        kind=kind,
        anchors=anchors,
        pattern=re.compile(rf"{begin}(?:{QUOTED}|(?P<bare>(?=[^\s\"'\\,;=0-9]{{0,64}}+[0-9]){BARE}{{4,}}+))"),
        opens=re.compile(rf"{begin}(?:{QUOTED}|(?P<bare>{BARE}*+))\Z"),
        run=re.compile(rf"{begin}{BARE}*+"),
        folded=True,
        needs="sign",
        judge=judge,
    )


def _is_secret(found: re.Match[str]) -> bool:
    start, end = value_of(found)
    value = found.string[start:end]
    if len(value) < 4 or CODE.match(value) or len(set(value)) == 1:
        return False
    if found["bare"] is not None and found.string[end : end + 1] in ("(", "["):
        return False  # a call, not a value
    return WORDS.match(value) is None


def _is_token(found: re.Match[str]) -> bool:
    """Of a name that is also said of words, only what looks like drawn by lot."""
    start, end = value_of(found)
    value = found.string[start:end]
    if len(value) < 16 or any(map(str.isspace, value)) or not _is_secret(found):
        return False
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


TOKEN = _assigned("token", ("token",), "token", _is_token)

SETTING = Detector(  # a setting as a pair: the name is a value too
    kind="credential",
    anchors=('"key"',),
    needs="sign",
    pattern=re.compile(
        r"\"key\"\s{0,8}+:\s{0,8}+\"(?P<name>[^\"\\]{1,128}+)\"\s{0,8}+,\s{0,8}+\"value\"\s{0,8}+:\s{0,8}+\"(?P<quoted>(?:[^\"\\]|\\.)++)"
    ),
    judge=lambda found: SECRET_NAME.search(found["name"]) is not None,
)

ASSIGNMENTS = (_assigned("credential", ANCHORS, NAMES, _is_secret), TOKEN, SETTING)


def is_secret_name(name: str) -> bool:
    """Return True if what is called so is a secret: a field, a setting, a key of a JSON object."""
    return ends_as_secret(name[-NAME_MAX:])


@lru_cache(4096)  # peers choose the names
def ends_as_secret(end: str) -> bool:
    """Return True if a name is that of a secret, judged by its last NAME_MAX characters."""
    return SECRET_NAME.search(end) is not None


def named(names: Iterable[str]) -> list[Detector]:
    """Whatever stands under these keys of JSON objects, where the path to them cannot be seen."""
    return [_named(name) for name in sorted(set(names))]


def _named(name: str) -> Detector:
    key = re.escape(f'"{name}')
    value = r"(?:\"(?P<quoted>(?:[^\"\\]|\\.)++)|(?P<secret>[\[{](?s:.)*+)|(?P<bare>[^\s\"\[{,}\]]++))"
    begun = r"(?P<secret>\s{0,8}+(?::\s{0,8}+(?:\"(?:[^\"\\]|\\.)*+|[^\s\",]*+)?)?)\Z"
    return Detector(
        kind="path",
        anchors=(f'"{name}"',),
        needs="sign",
        pattern=re.compile(rf"{key}(?P<quote>\")\s{{0,8}}+:\s{{0,8}}+{value}"),
        opens=re.compile(rf"{key}\"{begun}"),
    )
