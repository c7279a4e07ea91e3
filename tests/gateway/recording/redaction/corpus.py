"""Secrets for tests, composed at run time so that no repository scanner finds any in the source."""

from __future__ import annotations

import base64
import json

PRIVATE = "PRIVATE" + " KEY"
LETTERS = "aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA"


def jwt() -> str:
    """Return a token of three parts: JSON, JSON and random bytes."""
    parts = [json.dumps({"alg": "HS256", "typ": "JWT"}), json.dumps({"sub": "someone", "n": 7}), "signature" * 3]
    return ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)


def private_key() -> str:
    """Return a private key of several lines that opens nothing."""
    dashes = "-" * 5
    body = base64.b64encode(bytes(range(96))).decode()
    lines = [body[at : at + 32] for at in range(0, len(body), 32)]
    return "\n".join([f"{dashes}BEGIN EC {PRIVATE}{dashes}", *lines, f"{dashes}END EC {PRIVATE}{dashes}"])


SHAPES = {
    "api_key": "sk" + "-own-api03-" + LETTERS,
    "aws_key": "AKI" + "A" + "ABCDEFGH23456789",
    "github_token": "gh" + "p_" + LETTERS + "abcd",
    "gitlab_token": "glp" + "at-" + LETTERS[:20],
    "slack_token": "xo" + "xb-1234567890-" + LETTERS[:24],
    "google_key": "AI" + "za" + LETTERS + "_-9",
    "npm_token": "np" + "m_" + LETTERS + "abcd",
    "stripe_key": "sk_" + "live_" + LETTERS[:24],
    "huggingface_token": "h" + "f_" + LETTERS + "ab",
    "jwt": jwt(),
    "private_key": private_key(),
}
"""Kind -> a secret that is one wherever it stands."""

SAID = [
    *((kind, "the key is ", secret, " and that is it") for kind, secret in SHAPES.items()),
    ("bearer", "Authorization: Bearer ", "tok9." + LETTERS, "\n"),
    ("authorization", "authorization: Basic ", base64.b64encode(b"someone:" + LETTERS.encode()).decode(), "\n"),
    ("userinfo", "postgres://", "app:" + LETTERS[:12], "@db.internal/main"),
    ("token", "GET /ws?token=", LETTERS[:12], "&v=1 HTTP/1.1"),
    ("credential", "export DB_PASSWORD='", "hunter 2 " + LETTERS[:8], "'"),
    ("credential", '{"client_secret": "', "z" + LETTERS[:10], '", "n": 1}'),
    ("credential", "API_KEY=", LETTERS[:16], " make"),
    ("credential", "DB_PASSWORD=", "hunterhunter", " make"),
    ("credential", "the file says password: ", "letmein", "\nand no more"),
    ("cookie", "Cookie: ", "sid=" + LETTERS + "; other=hunterhunter", "\n"),
    ("userinfo", "curl -s -u admin:", "hunterhunter", " https://host/"),
    ("credential", "mysql -u root -p'", "letmein", "' shop"),
    ("credential", "machine host login me password ", "letmein", "\n"),
    ("telegram_token", "bot 123456789:", "AA" + LETTERS + "x", " ok"),
    ("groq_key", "try ", "gs" + "k_" + LETTERS + LETTERS[:20], "."),
]
"""Kind, text before it, secret, text behind it."""


def escaped(text: str) -> list[str]:
    """Return the text as JSON strings may contain it, in every form of escape, without the quotes."""
    plain = json.dumps(text, ensure_ascii=False)[1:-1]
    forms = [
        plain,
        json.dumps(text)[1:-1],
        plain.replace("/", "\\/"),
        "".join(f"\\u{unit:04x}" for unit in _units(text)),
        "".join(f"\\u{unit:04X}" for unit in _units(text)),
        "".join(f"\\u{unit:04x}" if at % 2 else json.dumps(chr(unit))[1:-1] for at, unit in enumerate(_units(text))),
    ]
    assert all(json.loads(f'"{form}"') == text for form in forms)
    return forms


def _units(text: str) -> list[int]:
    data = text.encode("utf-16-be")
    return [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2)]
