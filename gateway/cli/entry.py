"""The entry point of the process. It imports nothing of ours at first, so that Ctrl-C can be handled from then on."""

import os


def main() -> None:
    """Run the command line as a process, which Ctrl-C ends with 130 at any time.

    While modules are imported and while Python exits, the handler of the signal ends it: code there can turn a
    KeyboardInterrupt into another error. Only a command gets the exception.
    """
    try:
        _exit_on_interrupt(True)
        from dragoman.gateway.process import standard_descriptors

        standard_descriptors.open_missing()
        from dragoman.gateway.cli import program

        program.load()
        try:
            _exit_on_interrupt(False)
            program.main()
        finally:
            _exit_on_interrupt(True)
    except KeyboardInterrupt:
        os._exit(130)


def _exit_on_interrupt(wanted: bool) -> None:
    """Have Ctrl-C end the process at once, or raise KeyboardInterrupt; it stays ignored in a script's background."""
    import signal

    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, (lambda *_: os._exit(130)) if wanted else signal.default_int_handler)
