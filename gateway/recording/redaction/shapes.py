"""The built-in shapes of secrets, and the names whose values are secrets.

Keys of providers stand alone, not inside a longer word, so ids, hashes and base64 are left as they are. Names with
values are `PASSWORD=...`, `"api_key": "..."`, and the names that a user's JSON paths end in. Escaped quotes need no
pattern: they are plain ones a layer below (escapes.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from dragoman.gateway.recording.redaction.finder import Detector, Judge, value_of

__all__ = ["ALWAYS", "BUILT_IN", "NAME_MAX", "TOKEN", "USER_INFO", "ends_as_secret", "is_secret_name", "named"]

ANCHORS = ("passw", "passphrase", "pwd", "secret", "credential", "authorization", "key")
NAMES = (
    r"(?:passw(?:or)?d|passphrase|pwd|secret|credential|authorization|"
    r"(?:(?<=api)|(?<=api[_-])|(?<=access)|(?<=access[_-])|(?<=private)|(?<=private[_-]))key)(?:[_-]?key|s)?"
)
"""Names whose values are secrets, also as the end of a longer name: `DB_PASSWORD`, `clientSecret`."""

NAME_MAX = 64  # characters at the end of a name that decide whether it is one of those
SECRET_NAME = re.compile(rf"(?i:{NAMES}|token|auth_?context)\Z")

WORDS = re.compile(
    "(?i:string|str|text|none|null|true|false|undefined|password|secret|token|required|optional|changed|hidden|masked|"
    r"redacted|example|unknown|empty|value|bearer|basic)\Z"
)
"""Words that stand for a value in schemas, forms and prose."""

CODE = re.compile(
    r"(?:\$[A-Z_][A-Z0-9_]*|\$[a-z_]+|\$?\{+[^{}]*\}+|%[a-z]|%\([a-z_]+\)s|<[^<>]*>|[*.•]+|\[[^\[\]]*\])\Z"
    r"|(?:os|process|env|self|config|settings|request|req|args|params|this)[.\[(]"
)
"""References of code and templates to a value that stands elsewhere."""

QUOTED = r"\"(?P<quoted>(?:[^\"\\\n]|\\.)*+)|'(?P<single>(?:[^'\\\n]|\\.)*+)"
BARE = r"[^\s\"'`\\,;&<>(){}\[\]]"


def _assigned(kind: str, anchors: tuple[str, ...], names: str, judge: Judge) -> Detector:
    """Return the detector of a name, `:` or `=`, and a value: in quotes, or bare with a digit near its start."""
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
    """Return True if the value looks random: a token may also be a word of a text."""
    start, end = value_of(found)
    value = found.string[start:end]
    if len(value) < 16 or any(map(str.isspace, value)) or not _is_secret(found):
        return False
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


TOKEN = _assigned("token", ("token",), "token", _is_token)

SETTING = Detector(  # a setting as a pair: its name is a value too
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
    """Return True if the values of fields, settings or JSON keys of this name are secrets."""
    return ends_as_secret(name[-NAME_MAX:])


@lru_cache(4096)  # peers choose the names
def ends_as_secret(end: str) -> bool:
    """Return True if a name is that of a secret, given its last NAME_MAX characters."""
    return SECRET_NAME.search(end) is not None


def named(names: Iterable[str]) -> list[Detector]:
    """Return detectors for the values of these JSON keys, for texts in which the path to them cannot be seen."""
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


# -- keys of providers, headers and URLs ---------------------------------------------------------------

ALONE = r"(?<![A-Za-z0-9_-])"


def _key(kind: str, words: str, rest: str, least: int, *, digit: bool = False) -> Detector:
    """Return the detector of keys that begin with one of some words, and at least so many characters of `rest`."""
    anchors = tuple(words.split())
    begin = ALONE + "(?P<secret>(?:" + "|".join(map(re.escape, anchors)) + ")"
    some = r"(?=[A-Za-z_-]*+[0-9])" if digit else ""
    return Detector(
        kind=kind,
        anchors=anchors,
        pattern=re.compile(f"{begin}{some}[{rest}]{{{least},}}+)"),
        opens=re.compile(rf"{begin}[{rest}]*+)\Z"),
        run=re.compile(f"{begin}[{rest}]*+)"),
        needs="word",
    )


PEM = r"(?:[A-Za-z0-9+/=:,\s\\]|-(?!----))"  # the body and its headers, up to five dashes

PRIVATE_KEY = Detector(
    kind="private_key",
    anchors=("-----BEGIN",),
    pattern=re.compile(
        r"(?P<secret>-----BEGIN [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?-----"
        rf"(?={PEM}{{16}}){PEM}*+(?:-----END [A-Z0-9 ]{{0,60}}+(?:-----)?)?)"
    ),
    opens=re.compile(
        rf"(?P<secret>-----BEGIN(?: [A-Z0-9 ]{{0,60}}+(?:-----{PEM}*+(?:-----[A-Z0-9 ]{{0,60}}+)?)?-{{0,4}}+)?)\Z"
    ),
)

PART = r"[A-Za-z0-9_-]"

JWT = Detector(
    kind="jwt",
    anchors=("eyJ",),
    pattern=re.compile(rf"{ALONE}(?P<secret>eyJ{PART}{{8,}}+\.{PART}{{8,}}+\.{PART}*+(?:\.{PART}++){{0,2}}+)"),
    opens=re.compile(rf"{ALONE}(?P<secret>eyJ{PART}*+(?:\.{PART}*+){{0,4}}+)\Z"),
    needs="word",
)

LOGIN = r"[^\s/@:\"'`\\<>{}\[\]]"

USER_INFO = Detector(
    kind="userinfo",
    anchors=("://",),
    pattern=re.compile(rf"://(?P<secret>{LOGIN}{{0,256}}+:(?:{LOGIN}|:){{1,1024}}+)@"),
    opens=re.compile(rf"://(?P<secret>{LOGIN}*+:(?![0-9]{{0,5}}+\Z)(?:{LOGIN}|:)*+)\Z"),  # else it may be a port
    needs="sign",
)

BEARER = Detector(
    kind="bearer",
    anchors=("bearer",),
    pattern=re.compile(r"(?i:bearer)[\s:=]{1,4}+(?P<secret>[A-Za-z0-9._~+/-]{16,}+=*+)"),
    opens=re.compile(r"(?i:bearer)[\s:=]{1,4}+(?P<secret>[A-Za-z0-9._~+/=-]*+)\Z"),
    run=re.compile(r"(?i:bearer)[\s:=]{1,4}+[A-Za-z0-9._~+/=-]*+"),
    folded=True,
    needs="run",
    judge=lambda found: any(map(str.isdigit, found["secret"])),
)

AUTHORIZATION = Detector(
    kind="authorization",
    anchors=("authorization",),
    pattern=re.compile(
        r"(?i:authorization)[\"']?+\s{0,4}+[:=]\s{0,4}+[\"']?+(?i:basic|token|digest|apikey|key)\s{1,4}+"
        r"(?P<secret>[^\s\"'\\,;]{8,}+)"
    ),
    opens=re.compile(
        r"(?i:authorization)[\"']?+\s{0,4}+[:=]\s{0,4}+[\"']?+(?i:basic|token|digest|apikey|key)\s{1,4}+"
        r"(?P<secret>[^\s\"'\\,;]*+)\Z"
    ),
    folded=True,
    needs="sign",
)

ARGUMENT = r"[^\s&#\"'`\\<>(){}\[\]]"
PARAMETERS = "token|access_token|auth_token|api_?key|password|secret|sig(?:nature)?"

PARAMETER = Detector(
    kind="token",
    anchors=("?", "&"),
    pattern=re.compile(rf"[?&](?i:{PARAMETERS})=(?P<secret>{ARGUMENT}{{4,}}+)"),
    opens=re.compile(rf"[?&](?i:{PARAMETERS})=(?P<secret>{ARGUMENT}*+)\Z"),
    run=re.compile(rf"[?&](?i:{PARAMETERS})={ARGUMENT}*+"),
    folded=True,
    needs="sign",
)

ONE_TIME_CODE = Detector(  # typed by clients whose dialect has no form for it (docs/translation.md, rule 3.3)
    kind="otp",
    anchors=("code ",),
    pattern=re.compile(r"(?<![^\"])(?i:code)\s{1,4}+(?P<secret>[0-9]{4,10}+)(?=\s{0,4}+(?:\"|\Z))"),
    folded=True,
)

ALWAYS = (PARAMETER, ONE_TIME_CODE)
"""Secrets that no recording ever holds: tokens in URLs, and one-time codes."""

BUILT_IN: tuple[Detector, ...] = (
    PRIVATE_KEY,
    JWT,
    _key("api_key", "sk-", "A-Za-z0-9_-", 20, digit=True),  # OpenAI, Anthropic, OpenRouter, DeepSeek
    _key("aws_key", "AKIA ASIA ABIA ACCA", "A-Z0-9", 16),
    _key("github_token", "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_", "A-Za-z0-9_", 22),
    _key("gitlab_token", "glpat- gldt- glrt- glptt-", "A-Za-z0-9_.-", 20),
    _key("slack_token", "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xapp-", "A-Za-z0-9-", 12, digit=True),
    _key("google_key", "AIza ya29.", "A-Za-z0-9_-", 30),
    _key("npm_token", "npm_", "A-Za-z0-9", 30),
    _key("pypi_token", "pypi-AgE", "A-Za-z0-9_-", 30),
    _key("stripe_key", "sk_live_ sk_test_ rk_live_ rk_test_ whsec_", "A-Za-z0-9", 16),
    _key("huggingface_token", "hf_", "A-Za-z0-9", 30),
    _key("sendgrid_key", "SG.", "A-Za-z0-9_.-", 40),
    _key("digitalocean_token", "dop_v1_ doo_v1_ dor_v1_", "a-f0-9", 40),
    _key("shopify_token", "shpat_ shpca_ shppa_ shpss_", "a-fA-F0-9", 30),
    USER_INFO,
    BEARER,
    AUTHORIZATION,
    *ALWAYS,
    *ASSIGNMENTS,
)
