"""Settings of every test: hypothesis without deadlines and randomness, a watchdog for tests that hang, the `peers` mark
by folder, visible skips, and a Ctrl-C that reaches child processes.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

from dragoman.gateway.observability.logs import LEVEL
from tests.shared import NOT_FOUND

FOREVER = 600.0
"""Seconds for the tests of a module, of which each has 60: past them a process that hangs shows where, and ends."""

# An example that is slow once is a busy machine: tests/bench measures what must be fast, `timeout` stops what hangs.
# The examples are the same each time, so that a change is judged by what it changes; who looks for more asks for more.
settings.register_profile(
    "dragoman",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    database=None,
    derandomize="DRAGOMAN_EXAMPLES" not in os.environ,
)
settings.load_profile("dragoman")


# A background job of a script ignores Ctrl-C, and one of `nohup` a hangup: so would each program that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)  # the tests themselves go on after a hangup, as `nohup` promises


# Only a failed test shows its log, so no line needs colours or a date, which cost more than the line's event.
LOG: list[Any] = [
    structlog.stdlib.add_log_level,
    structlog.processors.format_exc_info,
    structlog.processors.KeyValueRenderer(),
]


DIGITS = sys.get_int_max_str_digits()
SWITCH = sys.getswitchinterval()


def pytest_runtest_setup() -> None:
    """Configure the process as for every test: a command that an earlier test ran here has configured it for itself."""
    sys.set_int_max_str_digits(DIGITS)
    sys.setswitchinterval(SWITCH)
    structlog.reset_defaults()
    structlog.configure(processors=LOG)
    LEVEL.change("info", dict.fromkeys(LEVEL.components))
    LEVEL.shows_content = False


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without garbage collections, which would scan again and again all that was collected so far."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/peers/"):
            item.add_marker(pytest.mark.peers)


def pytest_collection_finish() -> None:
    exempt_from_collection()


STDERR = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STDERR] = os.dup(2)  # 2 itself is captured while a test runs


@pytest.fixture(scope="module", autouse=True)
def _module(pytestconfig: pytest.Config) -> Iterator[None]:
    """Watch the tests of a module. pytest's own watchdog starts a thread for each test, which takes 0.5 ms."""
    if "DRAGOMAN_EXAMPLES" not in os.environ:
        faulthandler.dump_traceback_later(FOREVER, exit=True, file=pytestconfig.stash[STDERR])
    yield
    faulthandler.cancel_dump_traceback_later()
    exempt_from_collection()


def exempt_from_collection() -> None:
    """Exempt what is there now from garbage collection, because some tests collect garbage themselves and would scan
    all tests, their modules and their reports.
    """
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = [r for r in terminalreporter.stats.get("skipped", []) if NOT_FOUND in str(r.longrepr)]
    if skipped:
        terminalreporter.write_line(f"{len(skipped)} skipped: {NOT_FOUND}", yellow=True, bold=True)
