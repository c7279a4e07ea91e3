"""A dialect of another package (acme.py) is found by its entry point, translated, and served and dialled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ANSWER = (
    '{"event":"text_delta","data":{"text":"Well."}}\n'
    '{"event":"run_end","data":{"result":"finished"}}\n'
    '{"event":"status","data":{"status":"idle"}}\n'
)


@pytest.fixture
def acme(tmp_path: Path) -> Path:
    """Return a folder with the package `acme`, as pip would install it."""
    (tmp_path / "acme.py").write_text(Path(__file__).with_name("acme.py").read_text("utf-8"))
    metadata = tmp_path / "acme-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[dragoman.dialects]\nacme = acme:DIALECT\n")
    return tmp_path


def run(acme: Path, *arguments: str, input: str = "") -> subprocess.CompletedProcess[str]:
    """Run dragoman beside the package `acme`."""
    program, env = [sys.executable, "-m", "dragoman", *arguments], {**os.environ, "PYTHONPATH": str(acme)}
    return subprocess.run(program, input=input, capture_output=True, text=True, env=env, timeout=50, check=False)


@pytest.mark.parametrize(
    ("arguments", "lines", "out"),
    [
        (["pod", "acme"], ANSWER, '{"type":"say","text":"Well."}\n{"type":"done"}\n'),
        (
            ["acme", "codewhale", "--commands"],
            '{"type":"ask","text":"Hi"}\n',
            '"method":"thread/message","params":{"thread_id":"thread-00000000-0000-0000-0000-000000000000","input":"Hi"}}\n',
        ),
        (["acme", "acme"], '{"type":"say","text":"Well."}\n', '{"type":"say","text":"Well."}\n'),
    ],
)
def test_a_dialect_of_another_package_is_translated(acme: Path, arguments: list[str], lines: str, out: str) -> None:
    source, target, *options = arguments
    done = run(acme, "translate", "--from", source, "--to", target, *options, input=lines)
    assert done.stdout.endswith(out), done.stderr
    assert done.returncode == 0


def test_a_dialect_of_another_package_has_clients_and_backends(acme: Path) -> None:
    backend = f"acme+stdio:{sys.executable} -m dragoman demo-backend acme+stdio:"
    done = run(acme, "send", backend, "Where is my order?")
    assert done.stdout.startswith("Let me look that up. Order A-1042"), done.stderr
    assert done.returncode == 0
