"""Read flags, texts, paths and choices of a command line without pydantic, and show arguments plainly in the help.

typer imports pydantic to convert any value. That import takes 59 ms of CPU, a quarter of what a whole start takes
without it. A value of another type goes to typer. So does a wrong choice, which typer refuses in its own words. Text
that is not UTF-8 is refused, because no JSON can hold it; a path may have any bytes.
"""

from __future__ import annotations

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
    """Show in the help no type of an argument, which has a name, and of a flag, which takes no value.

    The usage has required arguments without braces: typer writes `{FILE}`.
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


def _build(descriptor: TypeDescriptor) -> RuntimeParam:
    kind: Any = descriptor.annotation
    if kind not in (bool, str, list[str], Path) and get_origin(kind) is not Literal:
        return build_runtime_param(descriptor)
    return _PlainValue(parameter_info=descriptor.parameter_info, annotation=kind)


@dataclass(frozen=True)
class _PlainValue(RuntimeParam):
    """Converts values to one plain type."""

    def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:
        kind = self.annotation
        if kind is Path:
            return Path(value)
        texts = value if kind == list[str] else [value]
        if not all(is_encodable(text) for text in texts if isinstance(text, str)):
            raise typer.BadParameter("this is not UTF-8", ctx=ctx, param=param)
        if kind == list[str]:
            return list(value)
        if kind is str or isinstance(value, bool) or value in get_args(kind):
            return value
        return build_runtime_param(param.type_descriptor).coerce(value, param=param, ctx=ctx)
