"""The built-in shapes of secrets, and the names whose values are secrets.

Keys of providers stand alone, not inside a longer word, so ids, hashes and base64 are left as they are. Names with
values are `PASSWORD=...`, `"api_key": "..."`, and the names that a user's JSON paths end in. Escaped quotes need no
pattern: they are plain ones a layer below (spans.py).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

from dragoman.gateway.recording.redaction.finder import Detector, Judge, Shape, value_of
from dragoman.gateway.recording.redaction.prefixed_keys import PrefixedKeys

ANCHORS = ("passw", "passphrase", "pwd", "secret", "credential", "authorization", "key")
KEYS = ("api", "access", "private", "account", "signing", "encryption", "master", "auth")
NAMES = (
    r"(?:passw(?:or)?d|passphrase|pwd|(?<!pull)(?<!pull[_-])secret|credential|authorization|(?<=client[_-])key[_-]data|"
    rf"(?:{'|'.join(f'(?<={word})|(?<={word}[_-])' for word in KEYS)})key)(?:[_-]?key|s)?"
)
"""Names whose values are secrets, also as the end of a longer name: `DB_PASSWORD`, `clientSecret`."""

POSITIONS = ("page", "next", "prev", "previous", "continuation", "sync", "cursor", "cancellation", "start", "delta")
TOKENS = "".join(f"(?<!{word})(?<!{word}[_-])" for word in POSITIONS) + "token"
"""Names of tokens, without those that name a position in a list."""

NAME_MAX = 64  # last characters of a name, which decide whether its values are secrets
SECRET_NAME = re.compile(rf"(?i:{NAMES}|{TOKENS}|auth_?context)\Z")

WORDS = re.compile(
    "(?i:string|str|text|bytes|int|bool|boolean|number|char|any|object|buffer|uuid|none|null|nil|true|false|undefined|"
    "void|never|unknown|passw(?:or)?d|secret|token|credentials?|required|optional|changed|hidden|masked|redacted|example|"
    "empty|missing|invalid|incorrect|wrong|expired|denied|failed|failure|unset|disabled|enabled|encrypted|prompt|default|"
    r"include|omit|same-origin|plain|hashed|file|env|value|bearer|basic|digest|negotiate|yes|no|on|off)[.!]?\Z"
)
"""Words that stand for a value in schemas, forms and prose."""

CODE = re.compile(
    r"(?:\$[A-Z_][A-Z0-9_]*|\$[a-z_]+|\$?\{+[^{}]*\}+|%[a-z]|%\([a-z_]+\)s|<[^<>]*>|[*.•]+|\[[^\[\]]*\])\Z"
    r"|(?:os|process|env|self|config|settings|request|req|args|params|this)[.\[(]"
)
"""References of code and templates to a value that is not in the text."""

REFERENCE = re.compile(
    r"(?:[~.]{0,2}/|[A-Za-z]:\\)|.*\.(?:pem|key|crt|json|ya?ml|txt|env|p12|pfx|[a-z_]+)\Z"
    r"|(?=[A-Za-z]*[a-z_][A-Z_]|[a-z]+_).*(?i:passw|pwd|secret|key|token|credential)"
)
"""Paths, attributes and names of variables: without quotes and digits, they refer to a value that is not in the text.
"""

VARIABLE = re.compile("_|[a-z][A-Z]")
"""The middle of a name that consists of several words, as variables have them."""

CLOSED = re.compile(r"\s*[,.+;)\]}]")
"""The text after a quote that closes a string and opens none."""

NAME_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."
BEFORE = 256  # characters of a line that are read before a value, to find its context

QUOTED = r"\"(?P<quoted>(?:[^\"\\\n]|\\.)*+)|'(?P<single>(?:[^'\\\n]|\\.)*+)"
BARE = r"[^\s\"'`\\,;&<>(){}\[\]]"


def _assigned(kind: str, anchors: tuple[str, ...], names: str, judge: Judge) -> Detector:
    """Return the detector of a name, `:` or `=`, and a value, in quotes or bare."""
    begin = (
        rf"(?i:{names})"
        r"(?:(?P<quote>[\"'])\s{0,8}+[:=]|\s{0,4}+(?:=>|:=|[:=]))\s{0,8}+"
    )
    return Detector(
        kind=kind,
        anchors=anchors,
        pattern=re.compile(rf"{begin}(?:{QUOTED}|(?P<bare>{BARE}++))"),
        opens=re.compile(rf"{begin}(?:{QUOTED}|(?P<bare>{BARE}*+)[ \t]{{0,8}}+)\Z"),
        run=re.compile(rf"{begin}{BARE}*+"),
        folded=True,
        needs="sign",
        judge=judge,
        within="line",
    )


def _is_secret(found: re.Match[str]) -> bool:
    start, end = value_of(found)
    value = found.string[start:end]
    if CODE.match(value) or WORDS.match(value) or (len(value) > 1 and len(set(value)) == 1):
        return False
    if found["bare"] is None:
        return len(value) >= 4 and not _closes_a_string(found, start)
    if found.string[end : end + 1] in ("(", "["):
        return False  # a call, not a value
    if len(value) >= 4 and any(map(str.isdigit, value[:NAME_MAX])):
        return True
    return found["quote"] is None and REFERENCE.match(value) is None and _is_bare_word(found, start, end)


def _is_bare_word(found: re.Match[str], start: int, end: int) -> bool:
    """Return True if a value without quotes and digits is one: after `NAME=`, or up to the end of its line."""
    text, begin = found.string, found.start()
    sign = text[begin:start]
    behind = text[end : end + 9].lstrip(" \t")[:1]
    if sign.endswith("=") and not sign[-2:].startswith((" ", ":", "\t")):
        is_variable = _name_before(text, begin, start).isupper()
        return (is_variable or end - start >= 4) and text[end : end + 1] not in (",", ")", "]", "}", "{")
    is_code = "=" in sign and ("." in _name_before(text, begin, start) or VARIABLE.search(text, start, end) is not None)
    ends_line = "\n" not in sign and behind in ("", "\n", "\r", "#")
    return end - start >= 4 and ends_line and not is_code and text[end - 1] not in ".:!?"


def _name_before(text: str, begin: int, start: int) -> str:
    """Return the whole name, of which a pattern has found the end, up to the value at `start`."""
    before = text[max(0, begin - NAME_MAX) : begin]
    return before[len(before.rstrip(NAME_CHARACTERS)) :] + text[begin:start]


def _closes_a_string(found: re.Match[str], start: int) -> bool:
    """Return True if the quote before the value closes a string, as in `read('Password:', x)`."""
    if found["quote"] is not None or CLOSED.match(found.string, start) is None:
        return False
    line = found.string[max(0, found.start() - BEFORE) : found.start()].rpartition("\n")[2]
    return line.count(found.string[start - 1]) % 2 == 1


def _is_token(found: re.Match[str]) -> bool:
    """Return True if the value looks random: a token may also be a word of a text."""
    start, end = value_of(found)
    value = found.string[start:end]
    if len(value) < 16 or any(map(str.isspace, value)):
        return False
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value)) and _is_secret(found)


TOKEN = _assigned("token", ("token",), TOKENS, _is_token)

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
    needs="run",
    within="word",
)

LOGIN = r"[^\s/@:\"'`\\<>{}\[\]]"

USER_INFO = Detector(
    kind="userinfo",
    anchors=("://",),
    pattern=re.compile(rf"://(?P<secret>{LOGIN}{{0,256}}+:(?:{LOGIN}|:){{1,1024}}+)@"),
    opens=re.compile(rf"://(?P<secret>{LOGIN}*+:(?![0-9]{{0,5}}+\Z)(?:{LOGIN}|:)*+)\Z"),  # else it may be a port
    needs="sign",
    within="line",
)


def _behind(
    kind: str,
    anchors: tuple[str, ...],
    begin: str,
    characters: str,
    least: int,
    *,
    judge: Judge | None = None,
    needs: Literal["run", "sign", ""] = "sign",
) -> Detector:
    """Return the detector of a secret after `begin`: at least `least` of these `characters`."""
    return Detector(
        kind=kind,
        anchors=anchors,
        pattern=re.compile(f"{begin}(?P<secret>{characters}{{{least},}}+)"),
        opens=re.compile(rf"{begin}(?P<secret>{characters}*+)\Z"),
        run=re.compile(f"{begin}{characters}*+"),
        judge=judge,
        folded="(?i:" in begin,
        needs=needs,
        within="line",
    )


BEARER = _behind(
    "bearer",
    ("bearer",),
    r"(?i:bearer)[\s:=]{1,4}+",
    "[A-Za-z0-9._~+/=-]",
    16,
    needs="run",
    judge=lambda found: any(map(str.isdigit, found["secret"])),
)

AUTHORIZATION = _behind(
    "authorization",
    ("authorization",),
    r"(?i:authorization)[\"']?+\s{0,4}+[:=]\s{0,4}+[\"']?+(?i:basic|token|digest|apikey|key|bot|ssws|splunk|negotiate)\s{1,4}+",
    r"[^\s\"'\\,;]",
    8,
)

PARAMETERS = (
    "token|(?:access|auth|refresh|id)_token|api_?key|password|(?:client_)?secret|sig(?:nature)?|"
    "x-amz-(?:signature|security-token)"
)

PARAMETER = _behind("token", ("?", "&"), rf"[?&](?i:{PARAMETERS})=", r"[^\s&#\"'`\\<>(){}\[\]]", 4)

ONE_TIME_CODE = Detector(  # typed by clients whose dialect has no form for it (docs/translation.md, rule 3.3)
    kind="otp",
    anchors=("code ",),
    pattern=re.compile(r"(?<![^\"])(?i:code)\s{1,4}+(?P<secret>[0-9]{4,10}+)(?=\s{0,4}+(?:\"|\Z))"),
    folded=True,
)

COOKIE = Detector(
    kind="cookie",
    anchors=("cookie",),
    pattern=re.compile(
        r"(?i:cookie)[\"']?+\s{0,4}+[:=]\s{0,4}+[\"']?+"
        r"(?P<secret>[A-Za-z0-9_.-]{1,64}+=[^\s;,\"'`\\<>{}$]{4,}+(?:;\s?+[^\s;\"'`\\]++)*+)"
    ),
    opens=re.compile(
        r"(?i:cookie)[\"']?+\s{0,4}+[:=]\s{0,4}+[\"']?+(?P<secret>[A-Za-z0-9_.-]{0,64}+(?:=[^\"'`\\\n]*+)?)\Z"
    ),
    run=re.compile(r"(?i:cookie)[\"']?+\s{0,4}+[:=]\s{0,4}+[\"']?+[A-Za-z0-9_.-]{0,64}+=[^\"'`\\\n]*+"),
    folded=True,
    needs="sign",
    within="line",
)


# -- command lines and files ---------------------------------------------------------------------------

PLAIN = r"[^\s\"'`\\]"  # a character of an argument without quotes


def _command_before(found: re.Match[str]) -> str:
    """Return the command up to an option, without a pattern: a text may have thousands of options."""
    before = found.string[max(0, found.start() - BEFORE) : found.start()]
    return before[max(map(before.rfind, "\n|;&")) + 1 :]


def _is_curl_login(found: re.Match[str]) -> bool:
    """Return True for `curl -u user:password`; other commands take a user and a group there."""
    return "curl" in _command_before(found) and not found["secret"].isdigit() and not CODE.match(found["secret"])


CURL_LOGIN = _behind(
    "userinfo",
    ("-u", "--user", "--proxy-user"),
    r"(?<![A-Za-z0-9_-])(?:-u|--(?:proxy-)?user)[ =\"',]{0,4}+[^\s:\"'`\\]{1,64}+:",
    PLAIN,
    1,
    judge=_is_curl_login,
)

SPACE = r"[\s\"',]+"  # between the words of a command, which may be a list of arguments
PASSWORD_OPTIONS = {
    "-p": re.compile(
        r"\b(?:sshpass|mongo(?:sh|dump|restore)?"
        rf"|(?:docker|podman|nerdctl|helm{SPACE}registry|az|oc){SPACE}login)\b"
    ),
    "-a": re.compile(r"\bredis-cli\b"),
    "-w": re.compile(r"\bldap(?:search|modify|add|passwd|whoami)\b"),
}
"""Option with a password -> the commands that have it."""

COMMANDS = ("sshpass", "mongo", "login", "redis-cli", "ldap", "mysql", "mariadb")  # each of them has one of these words

MYSQL = re.compile(r"\b(?:mysql|mariadb)[a-z-]*\b")  # its password stands directly after `-p`


def _is_short_option(found: re.Match[str]) -> bool:
    command, option, between = _command_before(found), found["option"], found["between"]
    if not any(map(command.__contains__, COMMANDS)):
        return False
    known = option == "-p" and between in ("", "'", '"') and MYSQL.search(command) is not None
    known = known or PASSWORD_OPTIONS[option].search(command) is not None
    return known and CODE.match(found["secret"]) is None


def _is_long_option(found: re.Match[str]) -> bool:
    """Return True for `--db-password x1y2`. Without a digit the word may be the text of a help page."""
    return is_secret_name(found["name"]) and any(map(str.isdigit, found["secret"])) and not CODE.match(found["secret"])


BETWEEN = r"(?:[ =][\"']?|[\"'](?:,\s?[\"'])?)"  # an option and its value, also in a list of arguments

SHORT_OPTION = _behind(
    "credential",
    tuple(PASSWORD_OPTIONS),
    rf"(?<=[\s\"',])(?P<option>-[paw])(?P<between>{BETWEEN}?+)",
    PLAIN,
    1,
    judge=_is_short_option,
)

LONG_OPTION = _behind(
    "credential",
    (" --", "\n--", '"--', "'--"),
    rf"[\s\"']--(?P<name>[A-Za-z][A-Za-z0-9_-]{{2,63}}+){BETWEEN}",
    PLAIN,
    4,
    judge=_is_long_option,
)

WORD = r"\s{1,8}+\S{1,128}+\s{1,8}+"

NETRC = _behind("credential", ("machine ",), rf"machine{WORD}login{WORD}password\s{{1,8}}+", PLAIN, 1, needs="")


def _is_login_in_base64(found: re.Match[str]) -> bool:
    try:
        return b":" in base64.b64decode(found["secret"], validate=True)
    except binascii.Error:
        return False


DOCKER_AUTH = _behind(
    "authorization",
    ('"auth"',),
    r"\"auth\"\s{0,8}+:\s{0,8}+\"",
    "[A-Za-z0-9+/=]",
    8,
    judge=_is_login_in_base64,
)

AWS_SECRET = _behind(  # in the file of credentials after the id of the key
    "aws_secret",
    ("AKIA", "ASIA"),
    r"A[KS]IA[A-Z0-9]{16}[\s,;:\"'|]{1,8}+",
    "[A-Za-z0-9/+]",
    40,
    needs="run",
    judge=lambda found: len(found["secret"]) == 40 and any(map(str.isdigit, found["secret"])),
)

AZURE_SECRET = _behind(  # the secret of an application; three more characters stand before
    "azure_secret",
    ("7Q~", "8Q~"),
    "(?<=[A-Za-z0-9_~.-]{3})(?=[78]Q~)",
    "[A-Za-z0-9_~.-]",
    34,
    needs="run",
)

ALWAYS = (PARAMETER, ONE_TIME_CODE)
"""Secrets that no recording ever holds: tokens in URLs, and one-time codes."""

BUILT_IN: tuple[Shape, ...] = (
    PRIVATE_KEY,
    JWT,
    PrefixedKeys(),
    AWS_SECRET,
    AZURE_SECRET,
    USER_INFO,
    BEARER,
    AUTHORIZATION,
    COOKIE,
    CURL_LOGIN,
    SHORT_OPTION,
    LONG_OPTION,
    NETRC,
    DOCKER_AUTH,
    *ALWAYS,
    *ASSIGNMENTS,
)
