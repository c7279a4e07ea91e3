"""Run the command line: `python -m dragoman` is `dragoman`."""

from dragoman.gateway.entry import main

main()
