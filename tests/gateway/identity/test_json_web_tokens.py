"""JSON Web Tokens: which are accepted, and when the keys of an authority are read."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import jwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from msgspec import structs
from pytest_aiohttp import AiohttpServer
from structlog.testing import capture_logs

from dragoman.adapters.base import PeerFacts
from dragoman.gateway.config.model import Auth, Jwt
from dragoman.gateway.config.source import read_small
from dragoman.gateway.identity import json_web_tokens
from dragoman.gateway.identity.authenticators import NEEDED
from dragoman.gateway.identity.json_web_tokens import JWKS_MAX, LIFETIME, REFRESH, JsonWebTokens, KeySet, file_loader
from dragoman.gateway.identity.principal import Principal, Refusal
from dragoman.gateway.link import expiring
from tests.gateway.identity.running import WS, gateway, shake
from tests.gateway.in_memory import in_memory_gateway
from tests.idle import settle
from tests.pairs.gateway import SmoothClient

SECRET = "s" * 40
CONFIG = Jwt(secret=SECRET, audience="dragoman", leeway=600.0)
NOW = int(time.time())
DAY = 24 * 3600  # seconds: longer than any run of the tests
HOUR = 3600.0
Claims = dict[str, Any]


@cache
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@cache
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def claims(**changed: Any) -> Claims:
    whole = {"sub": "alice", "aud": "dragoman", "exp": NOW + DAY} | changed
    return {name: value for name, value in whole.items() if value is not None}


def signed(key: Any = SECRET, algorithm: str = "HS256", kid: str = "", **changed: Any) -> str:
    return jwt.encode(claims(**changed), key, algorithm=algorithm, headers={"kid": kid} if kid else None)


def identify(token: str, config: Jwt = CONFIG, keys: KeySet | None = None) -> Principal | str:
    named = JsonWebTokens(config, keys).identify(PeerFacts(token=token))
    return named.text if isinstance(named, Refusal) else structs.replace(named, credential=b"")


def test_the_subject_and_the_groups_name_the_principal() -> None:
    named = identify(signed(groups=["ops", 7]))
    assert named == Principal(name="jwt:alice", groups=frozenset({"group:ops"}), expires=NOW + DAY + 600.0)


def unsigned(algorithm: str) -> str:
    def part(value: Claims) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    return f"{part({'alg': algorithm, 'typ': 'JWT'})}.{part(claims())}."


@pytest.mark.parametrize(
    ("token", "text"),
    [
        ("", NEEDED.text),
        ("no.jwt.at-all", "this token is not accepted"),
        (unsigned("none"), "this token is not accepted"),
        (unsigned("None"), "this token is not accepted"),
        (unsigned("HS256"), "this token is not accepted"),
        (signed("x" * 40), "this token is not accepted"),
        (signed(SECRET * 2, "HS512"), "this token is not accepted"),
        (signed(exp=NOW - 3600), "the token has expired"),
        (signed(nbf=NOW + DAY), "the token is not valid yet"),
        (signed(aud="another"), "the token is for another audience"),
        (signed(aud=None), "this token is not accepted"),
        (signed(exp=None), "this token is not accepted"),
        (signed(sub=None), "this token is not accepted"),
        (signed(sub=""), "this token is not accepted"),
        (signed(sub="\ud800"), "this token is not accepted"),
        (signed(exp=10**400), "this token is not accepted"),
    ],
)
def test_any_other_token_is_refused_with_its_reason(token: str, text: str) -> None:
    assert identify(token) == text


@pytest.mark.parametrize(("name", "seconds"), [("exp", -2), ("nbf", 2)])
def test_clocks_may_differ_by_the_leeway(name: str, seconds: int) -> None:
    changed: Claims = {name: int(time.time()) + seconds}
    assert isinstance(identify(signed(**changed)), Principal)


def test_an_issuer_is_checked_if_it_is_configured() -> None:
    config = Jwt(secret=SECRET, audience="dragoman", issuer="https://id.example")
    assert isinstance(identify(signed(iss="https://id.example"), config), Principal)
    assert identify(signed(iss="https://evil.example"), config) == "this token is not accepted"


class Authority:
    """A JWKS that a test can change, with the number of times that it was read."""

    def __init__(self) -> None:
        self.now = 0.0
        self.reads = 0
        self.down = False
        self.keys: dict[str, Any] = {"rsa": rsa_key(), "ec": ec_key()}
        self.set = KeySet(self.load, lambda: self.now)
        self.tokens = JsonWebTokens(Jwt(jwks="https://id.example", audience="dragoman"), self.set)

    def load(self) -> dict[str, Any]:
        self.reads += 1
        if self.down:
            raise OSError("no route to host")
        rows = []
        for kid, key in self.keys.items():
            kind = jwt.algorithms.RSAAlgorithm if kid == "rsa" else jwt.algorithms.ECAlgorithm
            rows.append({**kind.to_jwk(key.public_key(), as_dict=True), "kid": kid})
        return {"keys": [*rows, {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"}]}

    async def name(self, token: str) -> Principal | Refusal:
        named = self.tokens.identify(PeerFacts(token=token))
        if isinstance(named, Refusal) and named.refresh is not None and await named.refresh():
            named = self.tokens.identify(PeerFacts(token=token))
        return named


@pytest.mark.parametrize(("make_key", "algorithm", "kid"), [(rsa_key, "RS256", "rsa"), (ec_key, "ES256", "ec")])
async def test_a_token_is_checked_with_the_key_that_it_names(
    make_key: Callable[[], Any], algorithm: str, kid: str
) -> None:
    authority = Authority()
    assert authority.reads == 0, "the start waits for the authority"
    assert isinstance(await authority.name(signed(make_key(), algorithm, kid)), Principal)


async def test_a_key_that_the_authority_removes_is_refused_once_the_keys_are_old() -> None:
    authority, token = Authority(), signed(rsa_key(), "RS256", "rsa")
    found = [await authority.name(token)]
    del authority.keys["rsa"]
    for seconds in (LIFETIME - 1, 1):
        authority.now += seconds
        found.append(await authority.name(token))
    assert [type(named) for named in found] == [Principal, Principal, Refusal]
    assert authority.reads == 2


async def test_old_keys_stay_in_use_while_the_authority_cannot_be_reached() -> None:
    authority, token = Authority(), signed(rsa_key(), "RS256", "rsa")
    await authority.name(token)
    authority.down = True
    for _ in range(3):
        authority.now += LIFETIME
        assert [type(await authority.name(token)) for _ in range(2)] == [Principal] * 2
    assert authority.reads == 4


async def test_a_public_key_is_no_secret_of_hs256() -> None:
    public_pem = rsa_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    body = unsigned("HS256").split(".")[1]
    header = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT","kid":"rsa"}').rstrip(b"=").decode()
    mac = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    signature = mac.sign(f"{header}.{body}".encode(), public_pem)
    forged = f"{header}.{body}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"
    assert isinstance(await Authority().name(forged), Refusal)


async def test_a_shared_key_of_a_jwks_is_not_used() -> None:
    assert isinstance(await Authority().name(signed(b"secret" * 6, kid="shared")), Refusal)


async def test_an_unknown_key_is_asked_for_at_most_once_in_a_minute() -> None:
    authority = Authority()
    invented = [signed(rsa_key(), "RS256", f"k{number}") for number in range(5)]
    assert all(isinstance(named, Refusal) for named in await asyncio.gather(*map(authority.name, invented)))
    assert authority.reads == 1
    authority.now += REFRESH
    await authority.name(invented[0])
    assert authority.reads == 2


async def test_known_keys_survive_an_outage_of_the_authority() -> None:
    authority = Authority()
    await authority.name(signed(rsa_key(), "RS256", "rsa"))
    authority.down, authority.now = True, REFRESH
    with capture_logs() as logs:
        assert isinstance(await authority.name(signed(rsa_key(), "RS256", "new")), Refusal)
    assert [entry["known"] for entry in logs] == [2]
    assert isinstance(await authority.name(signed(rsa_key(), "RS256", "rsa")), Principal)


KeysFrom = Callable[[Callable[[web.Request], Awaitable[web.StreamResponse]]], Awaitable[KeySet]]


@pytest.fixture
def keys_from(aiohttp_server: AiohttpServer) -> KeysFrom:
    """A function that returns the keys at the URL of an authority which answers in this way."""

    async def keys_from(answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> KeySet:
        app = web.Application()
        app.router.add_get("/jwks", answer)
        server = await aiohttp_server(app)
        return KeySet(file_loader(str(server.make_url("/jwks"))), lambda: 0.0)

    return keys_from


async def refused(keys: KeySet) -> str:
    """Return why these keys are not taken."""
    with capture_logs() as logs:
        assert not await keys.refresh("rsa")
    return str(logs[0]["cause"])


async def test_the_keys_of_an_authority_are_read_from_its_url(keys_from: KeysFrom) -> None:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.json_response(Authority().load())

    keys = await keys_from(answer)
    assert await keys.refresh("rsa")


@pytest.mark.parametrize(("use", "is_taken"), [("sig", True), ("enc", False)])
async def test_a_key_for_encryption_is_not_used(use: str, is_taken: bool) -> None:
    loaded = Authority().load()
    for row in loaded["keys"]:
        row["use"] = use
    keys = KeySet(lambda: loaded, lambda: 0.0)
    assert await keys.refresh("rsa") is is_taken


async def test_an_authority_that_sends_its_answer_slowly_is_given_up(
    keys_from: KeysFrom, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_web_tokens, "TIMEOUT", 0.2)

    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.01)

    assert await refused(await keys_from(drip)) == "no whole answer within 0.2 s"


async def test_an_answer_without_an_end_is_read_up_to_its_limit(keys_from: KeysFrom) -> None:
    async def flood(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with suppress(ConnectionError):  # else the server may log it before the gateway has logged the cause
            while True:
                await response.write(b" " * 65_536)
        return response

    assert await refused(await keys_from(flood)) == f"more than {JWKS_MAX} bytes"


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ("<html>log in</html>", "Expecting value"),
        ("[]", "list indices"),
        ("{}", "this JSON has no keys"),
        ("[" * 50_000, "Expecting value" if sys.version_info >= (3, 14) else "maximum recursion"),
        (json.dumps({"keys": [{}] * 257}), "more than 256 keys"),
    ],
)
async def test_an_answer_that_is_no_jwks_is_refused(body: str, cause: str, keys_from: KeysFrom) -> None:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(text=body)

    assert cause in await refused(await keys_from(answer))


async def test_an_authority_that_redirects_is_not_followed(keys_from: KeysFrom) -> None:
    async def redirect(_request: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("/elsewhere?token=never-logged")

    assert await refused(await keys_from(redirect)) == "HTTP status 302"


def test_a_file_of_keys_is_read_up_to_its_limit() -> None:
    keys = KeySet(file_loader("/dev/zero"), lambda: 0.0)
    with capture_logs() as logs:
        keys.read()
    assert logs[0]["cause"] == f"it has more than {JWKS_MAX:,} bytes"


def test_a_pipe_of_keys_is_waited_for_within_a_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "jwks")
    monkeypatch.setattr(json_web_tokens, "read_small", partial(read_small, wait=0.01))
    with capture_logs() as logs:
        KeySet(file_loader(f"{tmp_path}/jwks"), lambda: 0.0).read()
    assert logs[0]["cause"] == "the rest of it was not written within 0.01 s"


AUTH = Auth(jwt=CONFIG)


@pytest.mark.parametrize(
    ("changed", "text"),
    [({"exp": NOW - 3600}, "the token has expired"), ({"aud": "x"}, "the token is for another audience")],
)
async def test_a_client_with_a_bad_token_is_refused_before_its_handshake(changed: Claims, text: str) -> None:
    async with gateway(WS, auth=AUTH) as (_, (url,)):
        status, _, said = await shake(url, {"Authorization": f"Bearer {signed(**changed)}"})
        assert (status, said.strip()) == (401, text)


async def test_a_client_is_served_as_the_subject_of_its_token() -> None:
    async with (
        gateway(WS, auth=AUTH) as (app, (url,)),
        SmoothClient.connected(f"{url}?token={signed()}"),
    ):
        assert [link.principal for link in app.links] == ["jwt:alice"]


@pytest.mark.parametrize(
    ("auth", "ended"),
    [
        (Auth(jwt=structs.replace(CONFIG, secret="t" * 40)), True),
        (Auth(jwt=structs.replace(CONFIG, issuer="another")), True),
        (Auth(tokens={"bob": "bob-bob-bob-bob"}), True),
        (Auth(tokens={"bob": "bob-bob-bob-bob"}, jwt=CONFIG), False),
    ],
    ids=["other secret", "other issuer", "removed", "kept"],
)
async def test_a_reload_that_changes_how_tokens_are_checked_disconnects_their_clients(auth: Auth, ended: bool) -> None:
    async with gateway(WS, auth=AUTH) as (app, (url,)), SmoothClient.connected(f"{url}?token={signed()}") as client:
        (link,) = app.links
        await app.change_config(structs.replace(app.config, auth=auth))
        if ended:
            await client.until(lambda: "the token was revoked" in str(client.frames))
        else:
            await client.ask({"action": "ping"})
        assert link.alive is not ended


@pytest.mark.parametrize(("jump", "alive"), [(HOUR, False), (-HOUR, True)], ids=["forward", "back"])
async def test_a_token_expires_by_the_clock_of_the_machine_also_if_it_is_set(jump: float, alive: bool) -> None:
    async with in_memory_gateway() as made:
        peer, jumped = made.join("a"), 0.0
        services = structs.replace(made.services, clock=lambda: made.time.clock() + int(jumped * 1e9))
        await settle()
        with expiring(peer.link, made.time.clock() / 1e9 + HOUR / 2, services):
            made.time.passes(1)
            jumped = jump
            await made.time.elapses(60 if jump > 0 else HOUR)
            assert peer.link.alive is alive


async def test_a_client_gets_an_error_and_is_disconnected_when_its_token_expires() -> None:
    async with in_memory_gateway() as made:
        peer = made.join("a")
        await settle()
        with expiring(peer.link, made.time.clock() / 1e9 + 10, made.services):
            alive = []
            for seconds in (9, 2):
                await made.time.elapses(seconds)
                alive.append(peer.link.alive)
        assert alive == [True, False]
        assert "the token or certificate has expired" in str(peer.frames())
