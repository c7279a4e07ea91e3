"""A command that runs a gateway starts without modules that it does not need: other dialects, parts of libraries."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

PEM = Path(__file__).parents[2] / "adapters" / "websocket" / "localhost.pem"

NEVER = {"pydantic", "rich.console", "dragoman.gateway.recording.recorder", "dragoman.gateway.replay.playing"}
"""Modules that a bridge does not import if it records and replays nothing."""


def imported(*arguments: str) -> set[str]:
    """Return the modules that a serving command imports until it listens."""
    command = [sys.executable, "-X", "importtime", "-m", "dragoman", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        modules = set()
        for line in process.stderr:
            if line.startswith("listening "):
                break
            modules.add(line.rpartition("|")[2].strip())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 0
    return modules


@pytest.mark.parametrize(
    ("listen", "upstream", "used", "unused"),
    [
        (
            "smooth+ws://127.0.0.1:0/ws",
            "pod+unix:{folder}/sock",
            {"dragoman.mappings.smooth.wire", "dragoman.mappings.pod.wire", "aiohttp"},
            {"dragoman.mappings.pando.wire", "dragoman.mappings.codewhale.wire", "zmq"},
        ),
        (
            "pod+unix:{folder}/sock",
            "codewhale+stdio:codewhale",
            {"dragoman.mappings.pod.wire", "dragoman.mappings.codewhale.wire"},
            {"dragoman.mappings.smooth.wire", "dragoman.mappings.pando.wire", "aiohttp", "zmq"},
        ),
    ],
)
def test_a_bridge_imports_only_the_dialects_and_libraries_that_it_uses(
    listen: str, upstream: str, used: set[str], unused: set[str], tmp_path: Path
) -> None:
    modules = imported("bridge", listen.format(folder=tmp_path), upstream.format(folder=tmp_path))
    assert used <= modules
    assert not modules & (unused | NEVER)


def test_a_gateway_imports_what_its_first_log_line_needs_in_a_thread(tmp_path: Path) -> None:
    program = """
import sys, threading
from dragoman.gateway.cli.program import main
class Watch:
    def find_spec(self, name, path, target=None):
        if name == "dragoman.gateway.recording.redaction.rules":
            print(threading.current_thread() is threading.main_thread(), flush=True)
sys.meta_path.insert(0, Watch())
sys.exit(main())
"""
    config = tmp_path / "gateway.toml"
    config.write_text(
        f'[[route]]\nname = "a"\nlisten = ["smooth+ws://127.0.0.1:0/ws"]\nupstream = "pod+unix:{tmp_path}/sock"\n'
    )
    command = [sys.executable, "-c", program, "serve", "--config", str(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        is_in_loop = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert is_in_loop == "False\n"


@pytest.mark.parametrize("command", ["send", "chat"])
def test_a_client_of_the_command_line_imports_no_library_that_draws_tables_or_converts_values(
    command: str, tmp_path: Path
) -> None:
    arguments = (command, f"pod+unix:{tmp_path}/sock", *(["Hi"] if command == "send" else []))
    program = [sys.executable, "-X", "importtime", "-m", "dragoman", *arguments]
    done = subprocess.run(program, capture_output=True, text=True, input="", check=False, timeout=50)
    assert "dragoman.gateway.backend_client" in done.stderr
    assert "rich.console" not in done.stderr
    assert "pydantic" not in done.stderr


def test_a_demo_backend_does_not_import_the_library_that_draws_tables(tmp_path: Path) -> None:
    assert "rich.console" not in imported("demo-backend", f"pod+unix:{tmp_path}/sock")


def test_certificates_are_trusted_again_once_everything_is_imported() -> None:
    program = """
import ssl
from dragoman.gateway.cli import quick_start
def authorities(): return ssl.create_default_context().cert_store_stats()["x509"]
before = authorities()
quick_start.begin()
meanwhile = authorities()
quick_start.end()
print(before, meanwhile, authorities())
"""
    environment = {"SSL_CERT_FILE": str(PEM)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "0", "1"]
