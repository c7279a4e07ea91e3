"""Figures and tables: each goal as the median of its ratio over the rounds, with the spread."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib.metadata import version
from statistics import median

from msgspec import Struct

LIBRARIES = ("aiohttp", "msgspec", "uvloop", "websockets")


class Figure(Struct, frozen=True, kw_only=True):
    """A ratio of two measurements, with a value for each round. `goal` and `stretch` are 0 where it is reported only.

    `at_most` says which way is good: a cost against a floor must stay below, a rate against a peer above.
    """

    id: str
    title: str
    rounds: list[float]
    goal: float = 0.0
    stretch: float = 0.0
    at_most: bool = False
    unit: str = "x"

    @property
    def value(self) -> float:
        return median(self.rounds)

    @property
    def verdict(self) -> str:
        if not self.goal:
            return ""
        return "stretch" if self._reaches(self.stretch) else "goal" if self._reaches(self.goal) else "MISSED"

    def _reaches(self, bound: float) -> bool:
        return self.value <= bound if self.at_most else self.value >= bound


class Report(Struct, frozen=True, kw_only=True):
    """The figures of one benchmark, and the rows behind them: a heading, then lines of text cells."""

    figures: list[Figure]
    rows: list[list[str]]


def spread(values: Iterable[float], form: str = "{:.2f}") -> str:
    """`median [least..greatest]`."""
    known = list(values)
    return f"{form.format(median(known))} [{form.format(min(known))}..{form.format(max(known))}]"


def machine(rounds: int) -> str:
    """Return the machine and the versions with which this was measured."""
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    return (
        f"{os.cpu_count()} CPUs ({platform.machine()}, {platform.system()}), {platform.python_implementation()} "
        f"{platform.python_version()}, {libraries}; {rounds} interleaved rounds: median [least..greatest]"
    )


def goals(figures: list[Figure]) -> list[list[str]]:
    """The table of all figures."""
    rows = [["", "what", "ratio", "goal", "stretch", ""]]
    for figure in figures:
        sign = "<=" if figure.at_most else ">="
        bounds = [f"{sign} {bound:g}{figure.unit}" if figure.goal else "" for bound in (figure.goal, figure.stretch)]
        rows.append([figure.id, figure.title, spread(figure.rounds, "{:.2f}" + figure.unit), *bounds, figure.verdict])
    return rows


def table(rows: list[list[str]]) -> str:
    """Columns of equal width; the first row is the heading."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def as_markdown(rows: list[list[str]]) -> str:
    """Return a Markdown table; the first row is the heading."""
    width = len(rows[0])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * width, *lines[1:]])


def split(rows: list[list[str]]) -> list[list[list[str]]]:
    """Return the tables in `rows`: each begins with a heading that has the first cell of the first one."""
    tables: list[list[list[str]]] = []
    for row in rows:
        if not tables or row[0] == rows[0][0]:
            tables.append([])
        tables[-1].append(row)
    return tables
