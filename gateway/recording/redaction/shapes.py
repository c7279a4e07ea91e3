"""The common shapes of credentials, as their makers publish them.

Keys stand alone: not inside of a longer word, so that ids, hashes and base64 are left as they are.
"""

from __future__ import annotations

import re

from dragoman.gateway.recording.redaction.assignments import ASSIGNMENTS
from dragoman.gateway.recording.redaction.detectors import Detector

__all__ = ["ALWAYS", "BUILT_IN"]

ALONE = r"(?<![A-Za-z0-9_-])"


def _key(kind: str, words: str, rest: str, least: int, *, digit: bool = False) -> Detector:
    """A key that begins with one of some words and goes on with at least so many characters of `rest`."""
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


PEM = r"(?:[A-Za-z0-9+/=:,\s\\]|-(?!----))"  # the body, and the lines that say how it is locked, up to five dashes

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
"""What no recording ever holds: tokens in addresses, one-time codes."""

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
