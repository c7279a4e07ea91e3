"""The entry points of the processes. They import nothing of ours at first, to handle Ctrl-C from then on."""

import os
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
        from dragoman.gateway.process import standard_descriptors

        standard_descriptors.open_missing()
        program = load()
        try:
            _exit_on_interrupt(False)
            program()
        finally:
            _exit_on_interrupt(True)
    except KeyboardInterrupt:
        os._exit(130)


def _exit_on_interrupt(wanted: bool) -> None:
    """Have Ctrl-C end the process at once, or raise KeyboardInterrupt; it stays ignored in a script's background."""
    import signal

    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, (lambda *_: os._exit(130)) if wanted else signal.default_int_handler)
