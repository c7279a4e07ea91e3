"""An app in a thread: what it calls, and the errors that the caller gets of it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from dragoman.gateway.app import App
from dragoman.gateway.backend_client import app_thread
from dragoman.gateway.backend_client.app_thread import AppThread
from dragoman.gateway.config.model import Config, Route
from dragoman.gateway.endpoint import parse


def app_at(path: Path) -> App:
    listen, upstream = parse(f"pod+unix:{path}"), parse(f"pod+unix:{path}.backend")
    return App(Config(routes=(Route(name="test", listen=(listen,), upstream=upstream),)))


def test_an_app_listens_and_is_called_in_its_thread_until_the_block_ends(tmp_path: Path) -> None:
    failures: list[BaseException] = []
    called: list[str] = []
    done = threading.Event()

    def note() -> None:
        called.append(threading.current_thread().name)
        done.set()

    with AppThread(app_at(tmp_path / "sock"), "a thread", failures.append) as running:
        assert running.endpoints == [f"pod+unix:{tmp_path}/sock"]
        running.call(note)
        assert done.wait(5)
    assert (called, failures) == (["a thread"], [])
    assert not (tmp_path / "sock").exists()
    running.call(note)  # nobody is left to be called
    assert called == ["a thread"]


def test_the_error_of_an_app_that_cannot_listen_is_passed_on(tmp_path: Path) -> None:
    failures: list[BaseException] = []
    with AppThread(app_at(tmp_path / "missing" / "sock"), "a thread", failures.append) as running:
        (failure,) = failures
        assert "directory does not exist" in str(failure)
        assert running.endpoints == []


def test_an_app_that_is_not_ready_in_time_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app, failures = app_at(tmp_path / "sock"), list[BaseException]()

    async def run(_listening: object) -> None:
        await app.stop.wait()

    monkeypatch.setattr(app_thread, "START", 0.01)
    monkeypatch.setattr(app, "run", run)
    with AppThread(app, "an unready app", failures.append):
        assert [str(failure) for failure in failures] == ["the gateway was not ready within 0.01 s"]
    assert "an unready app" not in [thread.name for thread in threading.enumerate()]
