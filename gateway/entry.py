"""The entry points of the processes. They handle Ctrl-C before they import the rest of dragoman."""

import os
import sys
from collections.abc import Callable


def main() -> None:
    """Run `dragoman` as a process, which Ctrl-C ends with 130 at any time."""
    _run(_load_command_line)


def pod() -> None:
    """Run `dragoman-pod` as a process, which Ctrl-C never ends with a traceback."""
    _run(_load_pod)


def codewhale() -> None:
    """Run `dragoman-codewhale` as a process, which Ctrl-C never ends with a traceback."""
    _run(_load_codewhale)


def _load_command_line() -> Callable[[], object]:
    from dragoman.gateway.cli import program

    program.load()
    return program.main


def _load_pod() -> Callable[[], object]:
    from dragoman.gateway.launched import pod

    return pod.main


def _load_codewhale() -> Callable[[], object]:
    from dragoman.gateway.launched import codewhale

    return codewhale.main


def _run(load: Callable[[], Callable[[], object]]) -> None:
    """Import a program with `load`, and run it.

    While modules are imported and while Python exits, the handler of the signal ends the process: code there can turn a
    KeyboardInterrupt into another error. Only the program gets the exception.
    """
    try:
        _exit_on_interrupt(True)
        _open_missing_descriptors()
        program = load()
        try:
            _exit_on_interrupt(False)
            program()
        finally:
            _exit_on_interrupt(True)
    except KeyboardInterrupt:
        os._exit(130)


def _exit_on_interrupt(wanted: bool) -> None:
    """Make Ctrl-C end the process immediately, or (if not `wanted`) raise KeyboardInterrupt.

    A signal that is ignored, as in the background of a script, stays ignored.
    """
    import signal

    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, (lambda *_: os._exit(130)) if wanted else signal.default_int_handler)


def _open_missing_descriptors() -> None:
    """Open each of stdin, stdout and stderr that is closed, as by `2>&-`, before anything else is opened.

    Else the next socket would get its number: output for stderr would go to a peer, and libuv aborts when it closes a
    descriptor below 3. stdin is empty, and stderr is dropped. stdout is a pipe without a reader, so that lost output is
    an error.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  # stays open as long as the process
    if sys.stdout is None:
        reader, writer = os.pipe()
        os.dup2(writer, 1)
        os.close(reader)
        os.close(writer)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  # stays open as long as the process
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  # stays open as long as the process
