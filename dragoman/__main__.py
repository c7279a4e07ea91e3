"""Run the command line: `python -m dragoman` is `dragoman`."""

from dragoman.gateway.cli import main

main()
