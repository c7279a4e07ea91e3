"""The command line of dragoman: one file a command, named like it (`import` is import_.py).

program      the table of commands, errors and exit codes     running      event loop, logs and signals of a command
options      options that several commands have               progress     progress bars on a terminal
recordings   open recordings with progress                    output       write a new file, or stdout
redactor     the redactor of `redact`, `scan` and `import`    quick_start  less CPU and memory at the start
"""

import sys


def main() -> None:
    """Run the command line as a process: Ctrl-C exits with 130 at any time, also during an import."""
    try:
        from dragoman.gateway.process import standard_descriptors  # here: nothing is imported before the `try`

        standard_descriptors.open_missing()
        from dragoman.gateway.cli import program

        program.main()
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        import signal

        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python would print a traceback while it exits
