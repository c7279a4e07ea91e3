"""Ask the ops port of a running gateway, from the command line."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.gateway.config.ops_address import OpsAddress, parse_ops_address
from dragoman.mappings.errors import ConfigError, DragomanError

TIMEOUT = 10.0  # seconds for the whole answer: the port itself gives up after 4
ANSWER_MAX = 64 * 1024 * 1024  # bytes of an answer: a page of 1,000 sessions has about 1 MiB


class GatewayRefusalError(DragomanError):
    """The gateway answered that it cannot do what was asked."""


class OpsClient:
    """The ops port at an address. `token` is sent with each request, if there is one."""

    def __init__(self, address: OpsAddress, token: str) -> None:
        self._address = address
        self._token = token

    def ask(self, path: str, method: str = "GET", *, accepts: tuple[int, ...] = ()) -> Any:
        """Return the decoded answer. Raise ConfigError if no gateway answers or the request is wrong.

        Raise GatewayRefusalError if the gateway cannot do what was asked. A status in `accepts` is no error, unless the
        answer describes a problem.
        """
        status, is_problem, answer = self._exchange(path, method)
        if status == 401:
            sent = "does not accept this token: has the gateway reloaded its configuration?"
            how = sent if self._token else "wants a token: use --config FILE, or set DRAGOMAN_OPS_TOKEN"
            raise ConfigError(f"{self._address} {how}")
        if status >= 400 and is_problem:  # also if `accepts` has it: a stuck gateway cannot tell its health
            reason = answer.get("detail", "refused") if isinstance(answer, dict) else "refused"
            raise ConfigError(reason) if status == http.HTTPStatus.BAD_REQUEST else GatewayRefusalError(reason)
        if status >= 400 and status not in accepts:
            raise self._unknown_form()
        return answer

    def _exchange(self, path: str, method: str) -> tuple[int, bool, Any]:
        """Return the status of the answer, whether it describes a problem, and its decoded body."""
        connection = _OpsConnection(self._address)
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        try:
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            body = response.read(ANSWER_MAX + 1)
            if len(body) > ANSWER_MAX:
                raise ConfigError(f"{self._address}: its answer has more than {ANSWER_MAX} bytes")
            is_problem = response.getheader("Content-Type", "").startswith("application/problem+json")
            return response.status, is_problem, json.loads(body) if body else None
        except TimeoutError as error:
            silent = f"{self._address} accepts connections but gave no answer within {TIMEOUT:g} s"
            raise ConfigError(f"{silent}: is its process stopped, or out of CPU?") from error
        except OSError as error:
            reason = error.strerror or str(error) or type(error).__name__
            raise ConfigError(f"no gateway answers at {self._address}: {reason}; is it running with [ops]?") from error
        except (http.client.HTTPException, ValueError, RecursionError) as error:
            raise self._unknown_form() from error
        finally:
            connection.close()

    @contextlib.contextmanager
    def reading_answers(self) -> Iterator[None]:
        """Raise ConfigError, in this context, if an answer has not the form that this version knows."""
        try:
            yield
        except (KeyError, TypeError, AttributeError) as error:
            raise self._unknown_form() from error

    def _unknown_form(self) -> ConfigError:
        return ConfigError(
            f"{self._address} answers in a form that this program does not know: "
            "is it a dragoman of another version, or another server?"
        )


class _OpsConnection(http.client.HTTPConnection):
    """An HTTP connection to an ops port, over TCP or a Unix socket, that ends after TIMEOUT."""

    def __init__(self, address: OpsAddress) -> None:
        anywhere = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # a listener on all addresses is here, too
        super().__init__(anywhere.get(address.host, address.host) or "localhost", address.port, timeout=TIMEOUT)
        self._path = address.path

    def connect(self) -> None:
        deadline = time.monotonic() + TIMEOUT
        if self._path:
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.sock.settimeout(TIMEOUT)
            self.sock.connect(self._path)
        else:
            try:
                super().connect()
            except UnicodeError as error:  # a label of the name is empty or too long
                raise ConfigError(f"{self.host[:100]!r} is not a valid host name") from error
        self.sock = _DeadlineSocket(self.sock, deadline)


class _DeadlineSocket(socket.socket):
    """A connected socket that reads until a deadline: a timeout of the socket would start again with each byte."""

    def __init__(self, connected: socket.socket, deadline: float) -> None:
        super().__init__(connected.family, connected.type, connected.proto, connected.detach())
        self._deadline = deadline
        self.settimeout(TIMEOUT)

    def recv_into(self, *args: Any, **options: Any) -> int:
        """Read into a buffer, as `socket.recv_into` does."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.settimeout(left)
        return super().recv_into(*args, **options)


def find_ops_port(config_file: Path | None, url: str | None) -> OpsClient:
    """Return the ops port that a configuration file or a URL names; raise ConfigError if neither does."""
    token = os.environ.get("DRAGOMAN_OPS_TOKEN", "")
    if config_file is not None:
        from dragoman.gateway.config.check import load  # imports the registry, which a URL does not need

        ops = load(config_file, listens=False, starts=False).ops
        if ops is None:
            raise ConfigError(f"{config_file} has no [ops]: add it and restart the gateway")
        address = parse_ops_address(url or ops.listen)
        token = ops.tokens[0] if ops.tokens else token
    elif url:
        address = parse_ops_address(url)
    else:
        raise ConfigError("name the gateway: use --config FILE, --ops URL or the variable DRAGOMAN_OPS")
    if not address.path and not address.port:
        raise ConfigError("the system chose the port of this gateway: its first log line has the URL for --ops")
    return OpsClient(address, token)
