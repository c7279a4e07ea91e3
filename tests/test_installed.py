"""The installed distribution: one import name, which does not disturb other projects in its environment."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import textwrap
import zipfile
from pathlib import Path

import pytest

import dragoman

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("gateway", "adapters", "mappings")


def run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST", "COV"))}
    return subprocess.run(
        command, cwd=cwd, env={**own, **environment}, capture_output=True, text=True, timeout=50, check=False
    )


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the wheel and the sdist of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    built = run(sys.executable, "-m", "hatchling", "build", "--directory", str(folder), cwd=ROOT)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, distributions: Path) -> Path:
    """Return the folder of programs of a fresh environment with the wheel; the dependencies are those of this
    environment.
    """
    folder = tmp_path_factory.mktemp("environment")
    made = run(sys.executable, "-m", "venv", "--without-pip", str(folder), cwd=ROOT)
    assert made.returncode == 0, made.stderr
    python = folder / "bin" / "python"
    (wheel,) = distributions.glob("*.whl")
    command = (
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-compile",
        wheel,
    )
    installed = run(*command, cwd=ROOT)
    assert installed.returncode == 0, installed.stderr
    (packages,) = (folder / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    return folder / "bin"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Create a user's project whose modules have the names of our folders."""
    for name in ("gateway", "adapters"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"OWNER = 'the project, in {name}'\n", "utf-8")
    (tmp_path / "mappings.py").write_text("OWNER = 'the project, in mappings'\n", "utf-8")
    test = """
        import adapters, gateway, mappings

        def test_the_projects_own_modules_are_imported():
            for module in (adapters, gateway, mappings):
                assert module.OWNER == f"the project, in {module.__name__}"

        def test_the_pytest_fixtures_of_dragoman_are_registered(dragoman_replay, dragoman_drive):
            import dragoman.gateway
            assert dragoman.gateway is not gateway
    """
    (tmp_path / "test_project.py").write_text(textwrap.dedent(test), "utf-8")
    return tmp_path


def test_a_wheel_installs_one_import_name(distributions: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == {"dragoman", f"dragoman-{dragoman.__version__}.dist-info"}
    assert {f"dragoman/{folder}/__init__.py" for folder in FOLDERS} <= set(names)


def test_an_sdist_holds_each_source_file_once(distributions: Path) -> None:
    (sdist,) = distributions.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = [member.name.split("/", 1)[1] for member in archive if member.isfile()]
    assert [name for name in names if name.endswith("gateway/app.py")] == ["dragoman/gateway/app.py"]


def test_a_project_with_its_own_gateway_package_keeps_it_beside_an_installed_dragoman(
    environment: Path, project: Path
) -> None:
    tested = run(environment / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=project, PYTHONPATH=".")
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "2 passed" in tested.stdout


def test_the_program_runs_in_such_a_project(environment: Path, project: Path) -> None:
    told = run(environment / "dragoman", "--version", cwd=project, PYTHONPATH=".")
    assert (told.returncode, told.stdout) == (0, f"dragoman {dragoman.__version__}\n"), told.stderr


def test_the_installed_program_includes_its_documents_and_its_example(environment: Path, tmp_path: Path) -> None:
    example = run(environment / "dragoman", "config", "example", cwd=tmp_path)
    assert example.stdout == (ROOT / "config.example.toml").read_text("utf-8"), example.stderr
    page = run(environment / "dragoman", "docs", "dialects/pod", cwd=tmp_path)
    assert page.stdout == (ROOT / "docs/dialects/pod.md").read_text("utf-8"), page.stderr


def test_the_installed_program_exports_a_page(environment: Path, tmp_path: Path) -> None:
    recording = ROOT / "tests/data/recordings/v4.jsonl"
    page = run(environment / "dragoman", "export", str(recording), "-o", "-", cwd=tmp_path)
    assert page.stdout.startswith("<!doctype html>"), page.stderr


@pytest.mark.parametrize("folder", FOLDERS)
def test_importing_a_folder_of_the_checkout_is_refused(folder: str) -> None:
    refused = run(sys.executable, "-c", f"import {folder}", cwd=ROOT, PYTHONPATH=".")
    assert refused.returncode == 1
    assert f"write `import dragoman.{folder}`" in refused.stderr
