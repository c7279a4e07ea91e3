"""Common package names: dragoman refuses to run beside another distribution that brings one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway import ownership
from mappings.errors import ConfigError


def owned(monkeypatch: pytest.MonkeyPatch, owners: dict[str, list[str]]) -> None:
    monkeypatch.setattr(ownership, "packages_distributions", lambda: owners)


@pytest.mark.parametrize(
    "owners",
    [
        {},
        {"gateway": ["dragoman"], "adapters": ["dragoman"], "mappings": ["dragoman"]},
        {"gateway": ["dragoman", "dragoman"]},  # an editable install beside a wheel
        {"gateway": ["dragoman"], "requests": ["requests"]},
    ],
)
def test_ours_alone_is_well(monkeypatch: pytest.MonkeyPatch, owners: dict[str, list[str]]) -> None:
    owned(monkeypatch, owners)
    ownership.check()


@pytest.mark.parametrize("package", ownership.PACKAGES)
def test_another_owner_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    owned(monkeypatch, {package: ["dragoman", "zoo", "acme"]})
    with pytest.raises(ConfigError) as caught:
        ownership.check()
    assert f"{package!r} is also brought by acme, zoo" in str(caught.value)
    assert "pipx install dragoman" in str(caught.value)


def test_every_top_level_package_is_looked_at() -> None:
    root = Path(__file__).parents[2]
    packages = {path.parent.name for path in root.glob("*/__init__.py")} - {"tests"}
    assert packages == set(ownership.PACKAGES)


def test_here_nobody_else_owns_them() -> None:
    ownership.check()
