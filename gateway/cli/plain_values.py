"""Read the values of a command line without pydantic, and show arguments plainly in the help.

typer imports pydantic to convert any value. That import takes 59 ms of CPU, a quarter of what a whole start takes
without it. Flags, texts, numbers, paths, choices and lists of them need no library. Text that is not UTF-8 is refused,
because no JSON can hold it; a path may have any bytes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer
import typer.core
from typer._coercion import RuntimeParam, TypeDescriptor, build_runtime_param


def convert_plainly() -> None:
    """Let all parameters that have a plain type convert their values without pydantic."""
    typer.core.build_runtime_param = _build  # type: ignore[attr-defined]  # typer has no public hook for it


def show_plainly() -> None:
    """Leave the types of arguments and flags out of the help: an argument has a name, and a flag takes no value.

    Required arguments stand in the usage without the braces that typer writes: `FILE`, not `{FILE}`.
    """
    core: Any = typer.core  # typer has no public hook for it
    show_type = core.TyperOption.display_type_rich

    def show_type_of_value(option: Any, ctx: Any) -> Any:
        return None if option.is_flag else show_type(option, ctx)

    def show_nothing(_argument: Any, ctx: Any) -> Any: ...

    def show_name(argument: Any) -> str:
        name: str = argument.display_name_raw
        return name if argument.required else f"[{name}]"

    core.TyperOption.display_type_rich = show_type_of_value
    core.TyperArgument.display_type_rich = show_nothing
    core.TyperArgument._usage_display_name = show_name  # noqa: SLF001  # typer has no public hook for it


def is_encodable(text: str) -> bool:
    """Return False if a text from arguments or stdin had bytes that are not UTF-8: Python made surrogates of them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _decode(text: str) -> str:
    """Return a UTF-8 argument that Python decoded by a locale without UTF-8 (LC_ALL=POSIX with PYTHONUTF8=0)."""
    try:
        return os.fsencode(text).decode()
    except UnicodeError:
        raise ValueError("this is not UTF-8") from None


def _build(descriptor: TypeDescriptor) -> RuntimeParam:
    kind: Any = descriptor.annotation
    item = get_args(kind)[0] if get_origin(kind) is list else kind
    if item not in (bool, str, int, float, Path) and get_origin(item) is not Literal:
        return build_runtime_param(descriptor)
    return _PlainValue(parameter_info=descriptor.parameter_info, annotation=kind)


@dataclass(frozen=True)
class _PlainValue(RuntimeParam):
    """Converts values to one plain type, or to a list of it."""

    def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:
        kind: Any = self.annotation
        try:
            if get_origin(kind) is list:
                return [self._convert(one, get_args(kind)[0]) for one in value]
            return self._convert(value, kind)
        except ValueError as error:
            raise typer.BadParameter(str(error), ctx=ctx, param=param) from None

    def _convert(self, value: Any, kind: Any) -> Any:
        """Return a value of this type; raise ValueError with what is wrong."""
        if kind is Path:
            return Path(value)
        if isinstance(value, str) and not is_encodable(value):
            value = _decode(value)
        if kind in (int, float):
            return self._number(value, kind)
        choices = get_args(kind)
        if choices and value not in choices:
            raise ValueError(f"{value!r} is not one of {', '.join(choices)}")
        return value

    def _number(self, value: Any, kind: type[int] | type[float]) -> float:
        """Return a number within the bounds of the parameter; raise ValueError that names them."""
        least, most = self.parameter_info.min, self.parameter_info.max
        try:
            number = kind(value)
        except ValueError:
            number = None
        if number is not None and (least is None or number >= least) and (most is None or number <= most):
            return number
        name = "a whole number" if kind is int else "a number"
        bounds = "" if least is None else f" >= {least}" if most is None else f" from {least} to {most}"
        raise ValueError(f"{value!r} is not {name}{bounds}")
