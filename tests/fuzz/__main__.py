"""Run every parser under atheris, or under hypothesis if atheris is not installed (`make fuzz`).

    python -m tests.fuzz [--seconds 300] [--parser NAME]

Each parser runs in a process of its own for its share of the time. An input that breaks one is written to build/fuzz.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOUND = ROOT / "build" / "fuzz"
INSTALL = (
    "atheris is not installed: `.venv/bin/python -m pip install --group fuzz` (Linux). hypothesis does it instead."
)
EXAMPLES = "20000"  # of each parser, for hypothesis
INPUT_MAX = 8192


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def fuzz_one(name: str, seconds: int) -> None:
    """Run one parser under atheris; it ends this process."""
    import atheris  # type: ignore[import-untyped,import-not-found,unused-ignore]  # an optional group, without types

    with atheris.instrument_imports(include=["dragoman"]):
        from tests.fuzz.parsers import PARSERS, seeds
    FOUND.mkdir(parents=True, exist_ok=True)
    corpus = Path(tempfile.mkdtemp(prefix="corpus-"))
    for number, seed in enumerate(seeds()):
        (corpus / f"{number}").write_bytes(seed)
    options = [f"-max_total_time={seconds}", f"-max_len={INPUT_MAX}", f"-artifact_prefix={FOUND}/", "-verbosity=0"]
    atheris.Setup(["fuzz", *options, str(corpus)], PARSERS[name])
    atheris.Fuzz()


def fuzz_all(names: list[str], seconds: float) -> bool:
    """Run each parser in a process of its own; return True if none broke."""
    share = max(1, round(seconds / len(names)))
    broken = []
    for name in names:
        say(f"{name}: {share} s")
        arguments = [sys.executable, "-m", "tests.fuzz", "--one", name, "--seconds", str(share)]
        if subprocess.run(arguments, cwd=ROOT, check=False).returncode:
            broken.append(name)
    say(f"broken: {', '.join(broken) or 'none'}")
    return not broken


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--parser", help="the only parser to fuzz")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        fuzz_one(arguments.one, round(arguments.seconds))
    elif importlib.util.find_spec("atheris") is None:
        say(INSTALL)
        command = [sys.executable, "-m", "pytest", "-q", "--timeout=3600", "tests/fuzz"]
        command += ["-k", arguments.parser] if arguments.parser else []
        environment = {**os.environ, "DRAGOMAN_EXAMPLES": EXAMPLES}
        sys.exit(subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode)
    else:
        from tests.fuzz.parsers import PARSERS

        names = [arguments.parser] if arguments.parser else list(PARSERS)
        sys.exit(0 if fuzz_all(names, arguments.seconds) else 1)


if __name__ == "__main__":
    main()
