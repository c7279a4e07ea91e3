"""Log output in a pipe, each case in its own process because logging is set up once a process."""

from __future__ import annotations

import json
import re
import sys
import time
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from dragoman.gateway.observability import logs
from dragoman.gateway.observability.log_throttle import LINE_BURST, LINE_RATE
from tests.forked_program import python
from tests.gateway.recording.redaction.corpus import SHAPES

ROOT = Path(__file__).parents[3]
FOLDERS = ("gateway", "adapters")

BEGIN = """
import sys
import structlog
from dragoman.gateway.observability import logs
"""
PROGRAM = """
logs.configure({level!r}, as_json={as_json})
log = structlog.get_logger("dragoman").bind(link="pod-1")
log.debug("deep")
log.info("client connected", frames=3, text="two words", odd='say "a=b"\\nnext')
log.warning("slow", wait=0.5)
try:
    raise RuntimeError("broken")
except RuntimeError:
    log.exception("failed")
"""


def logged(program: str, environment: dict[str, str] | None = None) -> str:
    """Run a program that logs, and return what it wrote to stderr."""
    done = python(BEGIN + program, environment)
    assert (done.returncode, done.stdout) == (0, "")
    return done.stderr


@cache
def lines(level: str = "info", *, as_json: bool = False) -> list[str]:
    return logged(PROGRAM.format(level=level, as_json=as_json)).splitlines()


def test_on_a_pipe_a_line_is_logfmt_without_colours_and_begins_with_its_time_in_utc() -> None:
    first, *others = lines()
    assert re.match(r'timestamp=20[0-9-]+T[0-9:.]+Z level=info event="client connected" ', first)
    assert {"link=pod-1", "frames=3"} < set(first.split())
    assert ' text="two words"' in first
    assert "\x1b" not in first
    assert [line.startswith("timestamp=") for line in others] == [True, True], (
        "a value of several lines stays on its line"
    )


@pytest.mark.parametrize(("level", "count"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_a_log_level_shows_lines_of_this_level_and_above(level: str, count: int) -> None:
    assert len(lines(level)) == count


def test_json_lines_are_json_objects() -> None:
    rows = [json.loads(line) for line in lines(as_json=True)]
    assert [(row["level"], row["event"], row["logger"]) for row in rows] == [
        *(("info", "client connected", "dragoman"), ("warning", "slow", "dragoman"), ("error", "failed", "dragoman")),
    ]
    assert (rows[0]["frames"], rows[0]["link"], rows[0]["odd"]) == (3, "pod-1", 'say "a=b"\nnext')
    assert "RuntimeError: broken" in rows[2]["exception"]


def test_the_level_of_each_component_that_writes_lines_can_be_changed() -> None:
    sources = (path.read_text("utf-8") for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    named = set(chain.from_iterable(re.findall(r'get_logger\("(?:dragoman\.)?(\w+)"', source) for source in sources))
    assert named == logs.COMPONENTS


def test_an_exception_in_logfmt_is_part_of_its_line() -> None:
    assert "RuntimeError: broken" in lines("error")[0]


def test_an_exception_on_a_terminal_has_its_traceback_without_values() -> None:
    program = """
sys.stderr.isatty = lambda: True
logs.configure()
def deep(text):
    raise RuntimeError("broken")
try:
    deep("sword" + "fish")
except RuntimeError:
    structlog.get_logger("dragoman").exception("failed")
"""
    written = logged(program)
    assert "RuntimeError: broken" in written
    assert "in deep" in written
    assert "swordfish" not in written, "what a session says is for no log"


MALICIOUS = "a\x1b[2Jb\x9b31mc\u202ed\nlevel=error event=forged"
"""Control characters in a peer's text: clear the screen, turn red, write from right to left, begin a line."""


def malicious_line(setup: str) -> str:
    program = f"""
{setup}
log = structlog.get_logger("dragoman")
log.info({MALICIOUS!r}, text={MALICIOUS!r}, found=[{MALICIOUS!r}], **{{{MALICIOUS!r}: 1}})
try:
    raise RuntimeError({MALICIOUS!r})
except RuntimeError:
    log.exception("failed", cause=ValueError({MALICIOUS!r}))
"""
    return logged(program)


@pytest.mark.parametrize("setup", ["logs.configure()", "logs.configure(as_json=True)"])
def test_text_of_a_peer_is_logged_on_one_line_without_control_characters(setup: str) -> None:
    written = malicious_line(setup)
    assert len(written.splitlines()) == 2
    assert written.replace("\n", "").isprintable()


def test_text_of_a_peer_on_a_terminal_has_no_control_characters_and_begins_no_line() -> None:
    written = malicious_line("sys.stderr.isatty = lambda: True; logs.configure()")
    ours = re.sub(r"\x1b\[[0-9;]*m", "", written)  # the colours of the renderer itself
    assert ours.replace("\n", "").isprintable()
    assert "\x1b[2J" not in written
    assert not any(line.lstrip().startswith("level=error") and line[:1] != " " for line in ours.splitlines())


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_a_log_on_a_terminal_has_colours_unless_the_environment_refuses_them(
    environment: dict[str, str], coloured: bool
) -> None:
    program = """
sys.stderr.isatty = lambda: True
logs.configure()
structlog.get_logger("dragoman").warning("slow", wait=0.5)
"""
    written = logged(program, environment)
    assert ("slow" in written, "\x1b[" in written) == (True, coloured)


def test_logs_of_libraries_have_the_same_format() -> None:
    program = f"""
import logging
logs.configure()
logging.getLogger("aiohttp.server").error("bad request from %s", {MALICIOUS!r})
logging.getLogger("aiohttp.access").info("GET /")
try:
    raise RuntimeError("broken")
except RuntimeError:
    logging.getLogger("asyncio").exception("never retrieved")
"""
    first, second = logged(program).splitlines()
    assert first.isprintable()
    assert "level=error" in first
    assert "logger=aiohttp.server" in first
    assert "RuntimeError: broken" in second


def test_printed_lines_and_log_lines_keep_their_order() -> None:
    program = """
logs.configure()
for number in range(100):
    structlog.get_logger("dragoman").info(f"line-{number}")
    logs.write_line(f"told-{number}", sys.stderr)
"""
    found = re.findall(r"(?:line|told)-[0-9]+", logged(program))
    assert found == [f"{word}-{number}" for number in range(100) for word in ("line", "told")]


UNREAD = """
import fcntl, os
source, sink = os.pipe()
fcntl.fcntl(sink, fcntl.F_SETPIPE_SZ, 4096)
os.dup2(sink, 2)
logs.configure({level!r})
for number in range(20_000):
    logs.write_line("line", sys.stderr)
read = b""
while b"dropped" not in read and b"Traceback" not in read:
    read += os.read(source, 65536)
print(b"Traceback" in read)
"""


@pytest.mark.parametrize("level", ["info", "error"])
def test_dropped_lines_are_reported_at_each_level(level: str) -> None:
    assert python(BEGIN + UNREAD.format(level=level)).stdout == "False\n"


class Broken:
    """A stream without a reader."""

    def write(self, _text: str) -> int:
        raise BrokenPipeError

    def flush(self) -> None:
        raise BrokenPipeError


def test_a_log_without_a_reader_does_not_end_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Broken())
    logs.LineLogger().info("a line")


@pytest.mark.parametrize("as_json", [False, True])
def test_no_secret_is_logged(as_json: bool) -> None:
    key = SHAPES["github_token"]
    program = f"""
logs.configure("info", as_json={as_json})
log = structlog.get_logger("dragoman").bind(cause="no: {key}")
log.info("token={key}", found=["{key}", 3])
"""
    written = logged(program)
    assert key not in written
    assert written.count("[redacted:") == 3


FLOOD = """
logs.configure("debug")
log = structlog.get_logger("dragoman")
for _ in range(1500):
    log.info("client connected")
    log.debug("turn accepted")
"""


def test_a_flood_of_lines_is_cut_except_at_the_level_debug() -> None:
    begun = time.monotonic()
    written = logged(FLOOD)
    most = LINE_BURST + LINE_RATE * (time.monotonic() - begun) + 1
    assert LINE_BURST <= written.count("client connected") <= most < 1500
    assert written.count("turn accepted") == 1500
