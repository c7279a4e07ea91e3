"""Measure what redaction finds: kinds of secrets in all places, and innocent texts in which it must find
nothing.

The secrets are drawn from a fixed seed by the facts of prefixed_keys.py when this runs. So no scanner of repositories
can take one for a real one. `make docs` writes the result into docs/recording.md.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import uuid
from collections.abc import Callable, Iterator

from dragoman.gateway.recording.redaction.finder import Finder
from dragoman.gateway.recording.redaction.prefixed_keys import KeyFormat, key_formats
from dragoman.gateway.recording.redaction.shapes import BUILT_IN
from tests.gateway.recording.redaction.corpus import jwt, private_key

FINDER = Finder(BUILT_IN)

CLASSES = {
    "A-Z": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "a-z": "abcdefghijklmnopqrstuvwxyz",
    "0-9": "0123456789",
    "A-F": "ABCDEF",
    "a-f": "abcdef",
}

PLACES: dict[str, Callable[[str], str]] = {
    "`KEY=value`": lambda secret: f"A=1\nMY_SETTING={secret}\nB=2\n",
    "`export KEY=...`": lambda secret: f"export MY_SETTING='{secret}'; make\n",
    "YAML": lambda secret: f"a: 1\nmy_setting: {secret}\nb: 2\n",
    "TOML": lambda secret: f'[a]\nmy_setting = "{secret}"\n',
    "JSON": lambda secret: json.dumps({"a": 1, "my_setting": secret, "b": [secret]}),
    "JSON in JSON": lambda secret: json.dumps({"arguments": json.dumps({"my_setting": secret}), "n": 1}),
    "header": lambda secret: f"GET / HTTP/1.1\r\nHost: example.org\r\nX-My-Setting: {secret}\r\n\r\n",
    "URL": lambda secret: f"https://example.org/path?a=1&my_setting={secret}",
    "command": lambda secret: f"tool run --my-setting {secret} --verbose",
    "prose": lambda secret: f"I have set it to {secret} and now it works.",
}
"""Place -> a text with the secret there. The name beside it says nothing of a secret."""

PASSWORD, PHRASE, KEY = "hunter" + "hunter", "correct-horse", "Zx81" + "q" * 3 + "Kp04Lm55Qr"

FORMS: dict[str, tuple[str, str]] = {
    "variable": (f"DB_PASSWORD={PASSWORD}\n", PASSWORD),
    "short variable before a command": ("PGPASSWORD=x psql -h db", "x"),
    "export": (f"export API_KEY={KEY}\n", KEY),
    "option with `=`": (f"run --password={PHRASE} --verbose", PHRASE),
    "option with a space": (f"run --db-password {KEY} --verbose", KEY),
    "parameter of a form": ("grant_type=x&client_secret=abcdEF&scope=y", "abcdEF"),
    "YAML": (f"db:\n  password: {PASSWORD}\n  port: 1\n", PASSWORD),
    "YAML with a comment": (f"password: {PASSWORD}  # change it\n", PASSWORD),
    "TOML": (f'client_secret = "{PHRASE}"\n', PHRASE),
    "JSON": (json.dumps({"clientSecret": PHRASE}), PHRASE),
    "JSON in JSON": (json.dumps({"arguments": json.dumps({"password": PASSWORD})}), PASSWORD),
    "header with an API key": (f"X-Api-Key: {KEY}\r\n", KEY),
    "`Authorization: Bearer`": (f"Authorization: Bearer {KEY * 2}\r\n", KEY * 2),
    "`Authorization: Basic`": (f"authorization: Basic {base64.b64encode(b'a:' + KEY.encode()).decode()}\r\n", "YTpa"),
    "`Cookie`": (f"Cookie: session={KEY}; other={PASSWORD}\r\n", PASSWORD),
    "`Set-Cookie`": (f"Set-Cookie: sid={KEY}; Path=/; HttpOnly\r\n", KEY),
    "URL with a login": (f"postgres://app:{PASSWORD}@db.internal/main", PASSWORD),
    "URL with a token": (f"wss://example.org/ws?token={PASSWORD}", PASSWORD),
    "`curl -u`": (f"curl -s -u admin:{PASSWORD} https://example.org/", PASSWORD),
    "`curl -u` in a list": (json.dumps(["curl", "-u", f"admin:{PASSWORD}"]), PASSWORD),
    "`mysql -p'...'`": (f"mysql -u root -p'{PHRASE}' shop", PHRASE),
    "`sshpass -p`": (f"sshpass -p {PASSWORD} ssh host", PASSWORD),
    "`docker login -p`": (f"docker login -u me -p {PASSWORD} registry", PASSWORD),
    "`.netrc`": (f"machine example.org login me password {PASSWORD}\n", PASSWORD),
    "docker `auth`": (json.dumps({"auths": {"r": {"auth": base64.b64encode(b"me:" + KEY.encode()).decode()}}}), "bWU6"),
    "Azure connection string": (f"AccountName=a;AccountKey={KEY * 6}==;EndpointSuffix=x", KEY * 6),
    "ADO connection string": (f"Server=x;User Id=a;Password={PASSWORD};Database=y", PASSWORD),
    "kubeconfig": (f"users:\n- name: a\n  user:\n    client-key-data: {KEY * 4}\n", KEY * 4),
    "AWS credentials in CSV": (
        "Access key ID,Secret\nAKI" + "A" + "Q" * 16 + "," + (KEY * 3)[:40] + "\n",
        (KEY * 3)[:40],
    ),
    "Azure application secret": ("the secret a1B" + "8Q~" + "x" * 34, "8Q~" + "x" * 34),
    "JWT": (f"token {jwt()} .", jwt()),
    "PEM block": (f"{private_key()}\n", private_key().splitlines()[1]),
}
"""Form without a fixed prefix -> a text with it, and the secret in the text."""

HEX = hashlib.sha256(b"innocent").hexdigest()
INNOCENT: dict[str, list[str]] = {
    "code": [
        "fetch(url, { credentials: 'include', mode: 'cors' })",
        "read.password('Password:', x)",
        'password = getpass("Password: ")',
        "name = input('Your secret: ', default)",
        "connect(user=user, password=password, secret=app_secret)",
        "def login(password: str, token: str | None = None) -> Session:",
        "interface Login { password: string; secret: Buffer; apiKey?: string }",
        "api_key = os.environ['API_KEY']",
        "password: process.env.DB_PASSWORD,",
        "const apiKey = config.get('apiKey')",
        "if password == user.password:",
        "self.secret = secret",
        "login, account, password = auth_from_netrc\n",
        "key.PrivateKey = private\noptions.credentials = baseCredentials\n",
        "DB_PASSWORD=$DB_PASSWORD ./run",
        "DB_PASSWORD=${DB_PASSWORD:-}",
        "--password=<password>",
        "usage: tool [--token TOKEN] [--password PASSWORD]",
        "chown -R 1000:1000 . && docker run -u 1000:1000 -p 8080:80 image",
        "mkdir -p src/main && ssh -p 2222 host",
        "class='md-button-primary-large' data-key-name-of-the-element",
    ],
    "manifests": [
        "imagePullSecrets:\n  - name: regcred\n",
        "imagePullSecrets: regcred\n",
        "secretName: my-tls\nsecretKeyRef:\n  name: db\n  key: password\n",
        "secrets:\n  database:\n    file: ./db.txt\n",
        "password_file: /run/secrets/db\nsecret: /run/secrets/db\n",
        "password: ''\ntoken: null\nsecret: <redacted>\n",
        "PWD=/home/user/project\nOLDPWD=/home/user\n",
    ],
    "page tokens": [
        json.dumps({"nextPageToken": base64.b64encode(HEX.encode()).decode()[:40], "items": []}),
        json.dumps({"next_token": HEX[:32], "continuationToken": HEX[:24], "syncToken": "CPDAlvWDx70CEPDAlvWDx70CGAU"}),
        json.dumps({"max_tokens": 4096, "usage": {"prompt_tokens": 12, "completion_tokens": 1000}}),
    ],
    "logs": [
        "password: incorrect\nAuthorization: required\n",
        "Enter your password: \nsecret: missing\n",
        "authorization failed: token expired, see https://example.org/docs?page=2",
        "2026-11-22T10:00:00Z key=user:1234 hit=true",
    ],
    "hashes, ids": [
        HEX,
        f"commit {HEX[:40]}\nAuthor: a <a@example.org>\n",
        f"sha256:{HEX}",
        str(uuid.UUID(HEX[:32])),
        json.dumps({"id": str(uuid.UUID(HEX[:32])), "session": HEX[:24], "etag": f'W/"{HEX[:16]}"'}),
        "req_011CSHoEeqs5C35K2UUqR7Fy msg_01XFDUDYJgAACzvnptvVoYEL toolu_01D7FLrfh4GYq7yT1ULFeyMV",
    ],
    "lock files": [
        '"integrity": "sha512-' + base64.b64encode(bytes.fromhex(HEX) * 2).decode() + '"',
        f'checksum = "{HEX}"\nsource = "registry+https://github.com/rust-lang/crates.io-index"',
        f'{{file = "a-1.0.tar.gz", hash = "sha256:{HEX}"}}',
        f"resolved https://registry.yarnpkg.com/a/-/a-1.0.0.tgz#{HEX[:40]}",
    ],
    "base64 images": ["data:image/png;base64," + base64.b64encode(random.Random(7).randbytes(200_000)).decode()],
}
"""Kind of innocent texts -> such texts: nothing may be found in them."""


def characters(alphabet: str) -> str:
    """Return the characters of a class as prefixed_keys.py writes it."""
    text = alphabet
    for name, some in CLASSES.items():
        text = text.replace(name, some)
    return text


def keys() -> Iterator[tuple[str, str]]:
    """Yield a kind and a drawn secret for each prefix of prefixed_keys.py."""
    drawn = random.Random(14)
    for one in key_formats():
        before = f"1234567890{one.sign}" if one.sign else ""  # a key with a sign follows other characters
        yield one.kind, before + one.prefix + _body(one, drawn)


def _body(one: KeyFormat, drawn: random.Random) -> str:
    some = [char for char in characters(one.characters[1:-1]) if char.isalnum()]  # signs stand in few real keys
    parts = ["".join(drawn.choices(some, k=length)) for length in one.lengths]
    joined = parts[0] + "".join(sign + part for sign, part in zip(one.separators, parts[1:], strict=True))
    return joined[:-1] + "7" if one.digit else joined


def found(text: str, secret: str) -> bool:
    """Return True if only the sign before the secret's prefix is left in the text."""
    for span in reversed(FINDER.find(text)):
        text = f"{text[: span.start]}<>{text[span.end :]}"
    return secret not in text and secret[-8:] not in text


def false_findings() -> dict[str, list[str]]:
    """Map each kind of innocent text to the findings in its texts."""
    return {
        kind: [text[span.start : span.end] for text in texts for span in FINDER.find(text)]
        for kind, texts in INNOCENT.items()
    }


def findings_table() -> str:
    """Return the measured part of docs/recording.md."""
    drawn = list(keys())
    kinds = sorted({kind for kind, _ in drawn})
    lines = [f"Keys with a fixed prefix: {len(kinds)} kinds, {len(drawn)} prefixes, in each of these places.", ""]
    lines += ["| place | kinds found |", "|---|---|"]
    for place, text in PLACES.items():
        missed = {kind for kind, secret in drawn if not found(text(secret), secret)}
        lines.append(f"| {place} | {len(kinds) - len(missed)} of {len(kinds)} |")
    lines += [
        "",
        "Secrets without such a prefix, each in the form in which it is written.",
        "",
        "| form | found |",
        "|---|---|",
    ]
    lines += [f"| {form} | {'yes' if found(*text) else 'no'} |" for form, text in FORMS.items()]
    lines += [
        "",
        "Innocent texts, in which nothing is to be found.",
        "",
        "| texts | number | false findings |",
        "|---|---|---|",
    ]
    wrong = false_findings()
    lines += [f"| {kind} | {len(texts)} | {len(wrong[kind])} |" for kind, texts in INNOCENT.items()]
    lines += ["", f"The kinds with a fixed prefix: {', '.join(f'`{kind}`' for kind in kinds)}.", ""]
    return "\n".join(lines)
