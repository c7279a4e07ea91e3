"""Decide who may ask the ops port, and answer each refusal and failure as problem+json (RFC 9457).

A web page may send requests to 127.0.0.1, and a name of its own may lead there (DNS rebinding). So a request of a
browser is refused, and a request whose Host is a name must have one that is configured. There is no CORS.
"""

from __future__ import annotations

import asyncio
import hmac
from http import HTTPStatus

import msgspec
import structlog
from aiohttp import web
from aiohttp.typedefs import Handler
from msgspec import Struct

from dragoman.adapters.host_names import host_name, is_address
from dragoman.gateway.config.model import Ops
from dragoman.gateway.observability import audit

AUTHORISED = web.RequestKey("authorised", bool)
"""True if the request may use the whole port; otherwise it only learns whether the gateway is alive and ready."""

BODY_MAX = 16 * 1024  # bytes of a request: the largest one sets the level of each component of the log
DELAY = 0.5  # seconds before a wrong token is refused: two guesses a second for each connection
FOR_PROBES = frozenset({"/livez", "/readyz"})
"""Paths that need no token, because the probes of an orchestrator have none."""

log = structlog.get_logger("dragoman.ops")


class ProblemDetails(Struct, frozen=True, kw_only=True):
    """The body of every refusal."""

    title: str
    status: int
    detail: str
    type: str = "about:blank"


def respond(value: object, status: int = 200) -> web.Response:
    body = msgspec.json.format(msgspec.json.encode(value)) + b"\n"
    return web.Response(status=status, body=body, content_type="application/json")


def problem(status: int, detail: str, headers: dict[str, str] | None = None) -> web.Response:
    """Return a response that refuses a request, with the reason."""
    body = msgspec.json.encode(ProblemDetails(title=HTTPStatus(status).phrase, status=status, detail=detail)) + b"\n"
    return web.Response(status=status, body=body, content_type="application/problem+json", headers=headers)


class Guard:
    """The checks before each request, and the form of each failure. `local`: only this machine's user can connect."""

    def __init__(self, options: Ops, *, local: bool) -> None:
        self._local = local
        self.change_options(options)

    def change_options(self, options: Ops) -> None:
        """Accept the tokens and hosts of these options from now on."""
        self._tokens = [token.encode() for token in options.tokens]
        self._hosts = frozenset(host.lower() for host in options.hosts)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request by its handler, or refuse it."""
        refusal = self._refusal_of_host(request)
        if refusal is not None:
            return refusal
        request[AUTHORISED] = self._is_authorised(request.headers.get("Authorization", ""))
        if not request[AUTHORISED] and request.path not in FOR_PROBES:
            audit.refuse("unknown", "no accepted token of the ops port", method=request.method, path=request.path)
            await asyncio.sleep(DELAY)
            text = "send one of the tokens of the ops port as `Authorization: Bearer TOKEN`"
            return problem(401, text, {"WWW-Authenticate": "Bearer"})
        return await self._answer(request, handler)

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response = await handler(request)
        except web.HTTPMethodNotAllowed as error:
            allowed = ", ".join(sorted(error.allowed_methods))
            return problem(405, f"{request.path} has only {allowed}", {"Allow": allowed})
        except web.HTTPNotFound as error:
            text = (
                error.text if error.text and error.text != "404: Not Found" else f"there is nothing at {request.path}"
            )
            return problem(404, text)
        except web.HTTPRequestEntityTooLarge:
            return problem(413, f"the body of a request has at most {BODY_MAX} bytes")
        except web.HTTPException as error:
            return problem(error.status, error.text or error.reason)
        except web.RequestPayloadError:
            return problem(400, "the body is malformed: chunks or a `Content-Encoding` that it does not have")
        except ConnectionError:  # the client left before the end of its request: aiohttp closes the connection
            raise
        except TimeoutError:
            return problem(503, "the event loop of the gateway does not answer", {"Retry-After": "5"})
        except Exception:
            log.exception("ops request failed", method=request.method, path=request.path)
            return problem(500, "dragoman failed to answer this; its log has the reason")
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    def _refusal_of_host(self, request: web.Request) -> web.Response | None:
        if self._local:
            return None  # no browser connects to a Unix socket
        if "Origin" in request.headers or request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return problem(403, "the ops port does not answer web pages")
        header = request.headers.get("Host", "")
        host = host_name(header)
        if not header or host in self._hosts or is_address(host):
            return None
        return problem(421, f"unknown host {host!r}: add it to `hosts` under [ops], or use an IP address")

    def _is_authorised(self, header: str) -> bool:
        if not self._tokens:
            return True
        scheme, _, token = header.partition(" ")
        given = token.strip().encode("utf-8", "surrogateescape")
        equal = [hmac.compare_digest(given, known) for known in self._tokens]  # all, so that the time tells nothing
        return scheme.lower() == "bearer" and any(equal)
