"""The reason that clients receive if their backend cannot be reached."""

from __future__ import annotations

import errno

import pytest

from dragoman.gateway.public_reason import TEXT_MAX, exit_reason, full_reason, public_reason

SECRET = f"ghp_{'Xa9' * 12}"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "/tmp/x/sock"), "No such file or directory"),
        (OSError(errno.ECONNREFUSED, "tcp://127.0.0.1:48254: Connection refused"), "Connection refused"),
        (OSError("ws://10.0.0.1:8787/ws: it answers 404"), "it answers 404"),
        (
            OSError("the child exited at once: cw exited with status 2: no key in '/home/a b/.cw/key'"),
            "the child exited at once: cw exited with status 2: no key in …",
        ),
        (OSError("cannot read /home/ann/.config/cw.toml: permission denied"), "cannot read …: permission denied"),
        (OSError("first line / second line, and/or a third"), "first line / second line, and/or a third"),
        (OSError("no route to localhost:99 or [::1]:80"), "no route to … or …"),
        (TimeoutError(), ""),
    ],
)
def test_the_public_reason_contains_no_path_or_address(error: BaseException, told: str) -> None:
    assert public_reason(error) == told


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            FileNotFoundError(errno.ENOENT, "the socket does not exist", "/tmp/x/sock"),
            "/tmp/x/sock: the socket does not exist",
        ),
        (
            OSError(errno.ECONNREFUSED, "tcp://127.0.0.1:48254: nothing listens there"),
            "tcp://127.0.0.1:48254: nothing listens there",
        ),
        (OSError("the child exited at once"), "the child exited at once"),
        (TimeoutError(), ""),
    ],
)
def test_the_full_reason_names_the_address_and_has_no_error_number(error: OSError, told: str) -> None:
    assert full_reason(error) == told


class Ended:
    """The transport of a child that has ended."""

    reason = f"cw exited with status 3: the key {SECRET} is not accepted"


@pytest.mark.parametrize(
    "told",
    [
        public_reason(OSError(Ended.reason)),
        public_reason(OSError("x" * (TEXT_MAX - 25) + f" {SECRET}")),
        full_reason(OSError(Ended.reason)),
        full_reason(OSError(errno.EACCES, Ended.reason, "/tmp/x")),
        exit_reason(Ended()),
    ],
    ids=["public", "public and cut", "full", "full with a file", "exit"],
)
def test_no_reason_contains_a_secret(told: str) -> None:
    assert SECRET[:20] not in told
    assert "[redacted:github_token:" in told
