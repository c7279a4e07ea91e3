"""Write the state of a launched program into a JSON file."""

from __future__ import annotations

from pathlib import Path

import msgspec
import structlog
from msgspec import Struct

from dragoman.gateway.public_reason import full_reason

log = structlog.get_logger("dragoman.pod")


def write_state(path: Path, state: Struct, problem: str) -> bool:
    """Write the file atomically, and make its folder. A write error is only logged, as `problem`; then return False."""
    draft = path.with_suffix(".tmp")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft.write_bytes(msgspec.json.encode(state))
        draft.replace(path)
    except OSError as error:
        log.warning(problem, file=str(path), error=full_reason(error))
        return False
    return True
