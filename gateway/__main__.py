"""`python -m gateway` is `dragoman`."""

from gateway.cli import main

main()
