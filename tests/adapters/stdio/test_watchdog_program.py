"""The watchdog as a program: the commands on its stdin, and its work at the end of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from dragoman.adapters.stdio.watchdog import PROGRAM
from dragoman.adapters.stdio.watchdog_program import send
from tests.adapters.stdio.programs import DEADLINE, python

WAITS = "import signal; print('up', flush=True); signal.pause()"


@pytest.mark.parametrize(
    ("said", "ended"), [("+{0}\n+{1}\n", True), ("+{0}\n+{1}\n-{1}\n-{0}\n+{0}\n+{1}\n", True), ("+{0}\n-{0}\n", False)]
)
def test_groups_that_are_watched_at_the_end_are_terminated(mark: str, said: str, ended: bool) -> None:
    pipe = subprocess.PIPE
    with (
        subprocess.Popen(python(WAITS, mark), stdout=pipe, start_new_session=True) as one,
        subprocess.Popen(python(WAITS, mark), stdout=pipe, start_new_session=True) as other,
        subprocess.Popen([sys.executable, "-I", "-S", str(PROGRAM)], stdin=pipe, bufsize=0) as program,
    ):
        try:
            for process in (one, other):
                assert process.stdout is not None
                process.stdout.readline()
            assert program.stdin is not None
            for char in said.format(one.pid, other.pid).encode():  # a pipe may give it in any pieces
                program.stdin.write(bytes((char,)))
            program.stdin.close()
            if ended:
                assert [process.wait(DEADLINE) for process in (one, other)] == [-signal.SIGTERM] * 2
            assert program.wait(DEADLINE) == 0
            assert ended or (one.poll(), other.poll()) == (None, None)
        finally:
            one.kill()
            other.kill()


def test_a_group_that_no_longer_exists_is_skipped() -> None:
    with subprocess.Popen(python("pass"), start_new_session=True) as process:
        process.wait(DEADLINE)
        assert send([process.pid, os.getpgrp()], 0) == [os.getpgrp()]
