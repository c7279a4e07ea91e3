"""`dragoman` that waits shortly for children to end: python -m tests.pairs.impatient_gateway COMMAND ARGUMENTS."""

from __future__ import annotations

from functools import partial
from unittest.mock import patch

from dragoman.adapters.stdio import ChildLimits, Children
from dragoman.gateway import app
from dragoman.gateway.entry import main

SHORT = ChildLimits(eof_wait=0.2, term_wait=0.2)

if __name__ == "__main__":
    with patch.object(app, "Children", partial(Children, bounds=SHORT)):
        main()
