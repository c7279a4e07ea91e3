"""Read a small file that a user named: a configuration file, or one with a secret.

The path may be wrong in any way: a directory, a device, a FIFO without a writer, a file of many gigabytes. So reading
is bounded in bytes and in time, and every failure is a ConfigError with words for a user.
"""

from __future__ import annotations

import os
import select
import stat
import time
from pathlib import Path

from dragoman.mappings.errors import ConfigError

WAIT = 5.0  # seconds for a pipe or a device to deliver: a process substitution of a shell takes milliseconds
MAX_SECRET = 64 * 1024  # bytes of a file with a secret: a certificate chain has some 10 KiB
SECRET_MIN = 16  # characters of a secret that a program makes: fewer can be guessed
ENV, FILE = "env:", "file:"


def read_small(path: Path, limit: int, wait: float = WAIT) -> bytes:
    """Return the content of a file; raise ConfigError if there is none, or more than `limit` bytes."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        raise ConfigError(_reason(error)) from error
    try:
        return _read(number, limit, wait)
    except OSError as error:
        raise ConfigError(_reason(error)) from error
    finally:
        os.close(number)


def _read(number: int, limit: int, wait: float) -> bytes:
    is_file = stat.S_ISREG(os.fstat(number).st_mode)
    read, deadline = bytearray(), time.monotonic() + wait
    poll = select.poll()
    poll.register(number, select.POLLIN)
    while len(read) <= limit:
        if not is_file and not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            late = f"the rest of it was not written within {wait:g} s"
            raise ConfigError(late if wait else "it is a pipe or a device without data; name a regular file")
        try:
            data = os.read(number, limit + 1 - len(read))
        except BlockingIOError:
            continue
        if not data:
            return bytes(read)
        read += data
    raise ConfigError(f"it has more than {limit:,} bytes")


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)


def expand_home(text: str) -> str:
    """Return a path with the home of a user in place of `~` or `~USER` at its beginning, if there is that user."""
    try:
        return os.path.expanduser(text)
    except ValueError:  # no user has a null character in the name
        return text


def read_secret(path: Path, wait: float = WAIT) -> str:
    """Return the text of a file without the newlines at its end; raise ConfigError if it cannot be read or is empty.

    `wait` is the number of seconds for a pipe to deliver it.
    """
    try:
        text = read_small(path, MAX_SECRET, wait).decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ConfigError(f"the file {path} is not UTF-8") from error
    except ConfigError as error:
        raise ConfigError(f"the file {path} cannot be read: {error}") from error
    if not text:
        raise ConfigError(f"the file {path} is empty")
    return text


def find_secret(text: str, wait: float = WAIT) -> str:
    """Return the secret that an option names: `env:NAME`, `file:PATH`, or the secret itself. Raise ConfigError if there
    is none.
    """
    if text.startswith(FILE):
        return read_secret(Path(text.removeprefix(FILE)), wait)
    if not text.startswith(ENV):
        return text
    name = text.removeprefix(ENV)
    if not (value := os.environ.get(name, "")):
        raise ConfigError(f"the environment variable {name} is {'empty' if name in os.environ else 'not set'}")
    return value


def why_guessable(kind: str, secret: str) -> str:
    """Return an error text if a secret of this kind, such as `token`, is too short, with what to write; else ""."""
    if len(secret) >= SECRET_MIN:
        return ""
    return f"a {kind} of {len(secret)} characters can be guessed; write at least {SECRET_MIN} random ones"
