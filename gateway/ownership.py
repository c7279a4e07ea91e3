"""dragoman's top-level package names are common words: refuse to run where another distribution owns one of them."""

from __future__ import annotations

from importlib.metadata import packages_distributions

from mappings.errors import ConfigError

__all__ = ["PACKAGES", "check"]

PACKAGES = ("gateway", "adapters", "mappings")


def check() -> None:
    """Raise ConfigError when another installed distribution brings a package of ours; importing the wrong one would be
    silent.
    """
    owners = packages_distributions()
    for package in PACKAGES:
        others = sorted(set(owners.get(package, ())) - {"dragoman"})
        if others:
            raise ConfigError(
                f"the package {package!r} is also brought by {', '.join(others)}: install dragoman in an environment "
                "of its own (pipx install dragoman, or uv tool install dragoman)"
            )
