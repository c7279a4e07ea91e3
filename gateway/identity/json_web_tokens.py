"""JSON Web Tokens: the subject of a token that an authority has signed is the principal.

The algorithm follows from our key and never from the token: HS256 for a secret, RS256 or ES256 for a key of a JWKS. A
JWKS is read when a token first needs it, and for an unknown key at most once in `REFRESH`. Keys that are older than
`LIFETIME` are read again for the next token: the authority may have removed one. If the JWKS cannot be read, or is
larger than any real one, the keys that are known stay in use.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import structlog

from dragoman.adapters.base import PeerFacts
from dragoman.adapters.resolver import LookupResolver
from dragoman.gateway.config.model import Jwt
from dragoman.gateway.config.source import read_small
from dragoman.gateway.endpoint import masked_text
from dragoman.gateway.identity.authenticators import NEEDED, NOT_ACCEPTED, jwt_digest
from dragoman.gateway.identity.principal import Principal, Refusal
from dragoman.mappings.errors import ConfigError

REFRESH = 60.0  # seconds between two reads of a JWKS, so that invented keys cannot make us flood its server
LIFETIME = 300.0  # seconds after which a JWKS is read again: a removed key counts for as long
TIMEOUT = 5.0  # seconds for one whole read: clients give up a handshake after 10
JWKS_MAX = 256 * 1024  # bytes: a key takes 400, with a chain of certificates 5,000
KEYS_MAX = 256  # keys of a JWKS: authorities have two to twenty
ALGORITHMS = ("RS256", "ES256")
REQUIRED = ["exp", "sub", "aud"]

log = structlog.get_logger("dragoman.identity")


class KeySet:
    """The public keys of a JWKS by their id. `load` reads it, in a thread; `clock` returns seconds."""

    def __init__(self, load: Callable[[], dict[str, Any]], clock: Callable[[], float]) -> None:
        self._load = load
        self._clock = clock
        self._keys: dict[str, jwt.PyJWK] = {}
        self._tried: float | None = None
        self._lock = asyncio.Lock()

    def find_key(self, kid: str) -> jwt.PyJWK | None:
        """Return the key of this id, or the only key if the token names none. Return None if the keys are too old."""
        if self._age() >= LIFETIME:
            return None
        if not kid and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(kid)

    async def refresh(self, kid: str) -> bool:
        """Read the JWKS if the key `kid` is unknown or the keys are old; return True if the key is known now."""
        async with self._lock:
            if self.find_key(kid) is None and self._age() >= REFRESH:
                self._tried = self._clock()
                await asyncio.to_thread(self.read)  # the read is finished even if this client leaves
        return self.find_key(kid) is not None

    def _age(self) -> float:
        """Return the seconds since the last attempt to read the JWKS."""
        return math.inf if self._tried is None else self._clock() - self._tried

    def read(self) -> None:
        """Read the JWKS, or keep the known keys and log why."""
        try:
            keys = _public_keys(self._load())
        except KeyError:
            self._warn("this JSON has no keys")
        except (ConfigError, jwt.PyJWTError, OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
            self._warn(str(error))
        else:
            self._keys = keys

    def _warn(self, cause: str) -> None:
        log.warning(
            "cannot renew the keys of tokens, keeping the known ones",
            cause=masked_text(cause),
            known=len(self._keys),
        )


def _public_keys(loaded: dict[str, Any]) -> dict[str, jwt.PyJWK]:
    """Return the keys of our algorithms that are not for encryption, by their id."""
    if len(loaded["keys"]) > KEYS_MAX:
        raise ValueError(f"more than {KEYS_MAX} keys")
    keys = jwt.PyJWKSet.from_dict(loaded).keys
    ours = (key for key in keys if key.algorithm_name in ALGORITHMS and key.public_key_use in (None, "sig"))
    return {key.key_id or "": key for key in ours}


def file_loader(source: str) -> Callable[[], dict[str, Any]]:
    """Return a function that reads a JWKS from a URL or a file."""
    if source.startswith(("https://", "http://")):
        return lambda: json.loads(asyncio.run(_fetch(source)))
    return lambda: json.loads(read_small(Path(source), JWKS_MAX))


async def _fetch(url: str) -> bytes:
    """Return the body that a URL answers within TIMEOUT. A redirect is an error: it would name another authority."""
    timeout, body = aiohttp.ClientTimeout(total=TIMEOUT), b""
    connector = aiohttp.TCPConnector(resolver=LookupResolver())
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=True) as http,
            http.get(url, allow_redirects=False) as answer,
        ):
            if answer.status != HTTPStatus.OK:
                raise OSError(f"HTTP status {answer.status}")
            async for part in answer.content.iter_any():
                body = _bounded(body + part)
            return body
    except TimeoutError as error:
        raise OSError(f"no whole answer within {TIMEOUT:g} s") from error
    except aiohttp.ClientError as error:
        raise OSError(str(error)) from error


def _bounded(body: bytes) -> bytes:
    if len(body) > JWKS_MAX:
        raise ValueError(f"more than {JWKS_MAX} bytes")
    return body


class JsonWebTokens:
    """Checks the tokens that `config` describes; `keys` is needed for those that are not signed with its secret."""

    def __init__(self, config: Jwt, keys: KeySet | None) -> None:
        if keys is None and not config.secret:
            raise ConfigError("[auth.jwt] needs a secret or a jwks")
        self._config = config
        self._keys = keys
        self._credential = jwt_digest(config)

    def identify(self, facts: PeerFacts) -> Principal | Refusal:
        if not facts.token:
            return NEEDED
        try:
            if self._keys is None:
                return self._principal(facts.token, self._config.secret, "HS256")
            kid = str(jwt.get_unverified_header(facts.token).get("kid", ""))
            found = self._keys.find_key(kid)
            if found is None:
                return Refusal(text=NOT_ACCEPTED.text, refresh=partial(self._keys.refresh, kid))
            return self._principal(facts.token, found.key, found.algorithm_name)
        except jwt.ExpiredSignatureError:
            return Refusal(text="the token has expired")
        except jwt.ImmatureSignatureError:
            return Refusal(text="the token is not valid yet")
        except jwt.InvalidAudienceError:
            return Refusal(text="the token is for another audience")
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError):  # a whole number may be larger than any float
            return NOT_ACCEPTED

    def _principal(self, token: str, key: Any, algorithm: str) -> Principal | Refusal:
        config = self._config
        claims = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            audience=config.audience,
            issuer=config.issuer or None,
            leeway=config.leeway,
            options={"require": REQUIRED},
        )
        if not claims["sub"].encode():  # half a surrogate pair raises ValueError: no answer could show it
            return NOT_ACCEPTED
        named = claims.get(config.groups)
        groups = [named] if isinstance(named, str) else named if isinstance(named, list) else []
        return Principal(
            name=f"jwt:{claims['sub']}",
            groups=frozenset(f"group:{group}" for group in groups if isinstance(group, str)),
            expires=float(claims["exp"]) + config.leeway,
            credential=self._credential,
        )
