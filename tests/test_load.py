"""The load of the benchmarks refuses figures of a program that loses, changes or repeats what it carries."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench.bridges import relay
from tests.bench.load import Bridge, Load, Started, run

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="the load is compiled with cc")

PAIR = Load(client="pod", backend="pod", sessions=2, rate=100, tokens=20, framing="c")
LINES = Load(client="pod", backend="pod", tokens=64)

PROXY = """
import socket, sys, threading
path, target, old, new = sys.argv[1:]
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen()
print("listening pod+unix:" + path, file=sys.stderr, flush=True)
client, _ = listener.accept()
backend = socket.socket(socket.AF_UNIX)
backend.connect(target)
def ask():
    while data := client.recv(65536):
        backend.sendall(data)
threading.Thread(target=ask, daemon=True).start()
for line in backend.makefile("rb"):
    if old != "twice":
        line = line.replace(old.encode(), new.encode(), 1)
    elif new.encode() in line:
        line *= 2
    client.sendall(line)
"""


def changing(old: str, new: str) -> Bridge:
    """Return a bridge that copies lines and replaces `old`; with "twice" it repeats the lines that have `new`."""

    def start(_load: Load, folder: Path, backends: list[str]) -> Started:
        path = backends[0].removeprefix("unix:")
        return Started(command=(sys.executable, "-c", PROXY, f"{folder}/c0", path, old, new))

    return start


def test_tokens_through_a_relay_are_counted_and_timed() -> None:
    result = run(PAIR, relay, separate=False)
    assert (result.sessions, result.merged) == (2, 0)
    assert 0 < result.events <= 40
    assert 0 < result.p50 <= result.p99


@pytest.mark.parametrize(
    ("bridge", "why"),
    [
        (lambda: changing('"text":" quick"', '"text":""'), "instead of token"),
        (lambda: changing("twice", '"text":" quick"'), "instead of token"),
        (lambda: changing("twice", '"status":"idle"}}'), "after its end"),
        (lambda: changing("The quick", "The slow"), "another text at the end"),
    ],
    ids=["a lost token", "a token twice", "two ends", "another text at the end"],
)
def test_failed_load_run_raises_an_error_with_its_reason(bridge: Callable[[], Bridge], why: str) -> None:
    with pytest.raises(RuntimeError, match=why):
        run(LINES, bridge())
