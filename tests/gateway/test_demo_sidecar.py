"""`make demo-sidecar` as a whole program: its exit code, and what each of its steps prints."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

DEADLINE = 40.0  # seconds: the demo takes six on an idle machine

LINES = (
    ("smooth", "alice, with her token over TLS, is answered"),
    ("smooth", "a stranger without a token is refused: 401"),
    ("pod", "is served"),
    ("pod", "your user may not"),
    ("codewhale", "is served"),
    ("codewhale", "your user may not"),
    ("pando", "cannot tell its clients apart"),
    ("reload", "generation=2"),
    ("reload", "the turn goes on"),
    ("readyz", "503 once the agent is dead"),
    ("readyz", "200 once it is back"),
    ("metrics", 'dragoman_turns_total{end="completed",route="assistant"} 1.0'),
    ("metrics", 'dragoman_refused_total{reason="authentication",what="client"} 3.0'),
    ("recordings", "without secrets"),
    ("drain", "/readyz says draining"),
    ("drain", "close 1001"),
    ("drain", "the gateway has ended with 0"),
    ("done", "in "),
)
"""The label of each line that the demo prints for certain, in their order, and words of it."""


async def test_the_demo_of_a_sidecar_shows_each_of_its_steps() -> None:
    root = Path(__file__).parents[2]
    pipe = asyncio.subprocess.PIPE
    demo = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.demo_sidecar", cwd=root, stdout=pipe, stderr=pipe, start_new_session=True
    )
    try:
        async with asyncio.timeout(DEADLINE):
            out, errors = await demo.communicate()
    finally:
        if demo.returncode is None:
            os.killpg(demo.pid, signal.SIGKILL)  # its gateway and its agent hold the pipes that `wait` waits for
            await demo.wait()
    assert demo.returncode == 0, errors.decode()
    printed = iter(out.decode().splitlines())
    for label, words in LINES:
        assert any(line.startswith(label) and words in line for line in printed), (label, words, out.decode())
