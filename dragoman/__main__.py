"""Run the command line: `python -m dragoman` is `dragoman`."""

from dragoman.gateway.cli.entry import main

main()
