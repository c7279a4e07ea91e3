"""Write logs with structlog to stderr: `key=value`, coloured on a terminal, JSON lines on request, without secrets.

    log.info(...) --> level, limit, time, exception --> secrets out --> control characters escaped --> renderer
    stdlib logging --> _Bridge --^                                     write_line("listening ...") --> LogQueue <--^

Any value may contain a peer's text. So control characters are escaped, and no value begins a line of its own. A serving
process writes through one LogQueue, so that an unread stderr never blocks it.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
import time
from collections.abc import Mapping, MutableMapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Literal, TextIO, get_args

from dragoman.gateway.observability.log_queue import LogQueue

Level = Literal["debug", "info", "warning", "error"]
LEVELS = get_args(Level)
_RANKS = {name: rank for rank, name in enumerate(LEVELS)}
COMPONENTS = frozenset(
    (
        *("audit", "child", "codewhale", "curve", "dragoman", "identity", "link", "ops", "pando", "pod"),
        *("questions", "recording", "replay", "session", "tls", "turn", "upstream"),
    )
)
"""Names of loggers, without the `dragoman.` before them."""
CONTINUED = "\n    "  # indents further lines of a value, so that they cannot look like log lines

Fields = MutableMapping[str, Any]


class LevelTable:
    """The default log level, and the levels of components that have their own. Both can be changed at any time."""

    def __init__(self) -> None:
        self.default = "info"
        self.components: dict[str, str] = {}
        self.shows_content = False
        """Lines of the component `turn` have the text of inputs, tool calls and answers, without secrets."""

    def change(self, default: str | None = None, components: Mapping[str, str | None] = MappingProxyType({})) -> None:
        """Set these levels; a component with None has the default level again."""
        self.default = default or self.default
        levels = {**self.components, **components}
        self.components = {name: level for name, level in levels.items() if level is not None}

    def passes(self, component: str, method: str) -> bool:
        """Return True if a line that a logger's method writes for this component is wanted."""
        level = self.components.get(component.removeprefix("dragoman."), self.default)
        return _RANKS.get(method, len(LEVELS)) >= _RANKS[level]


LEVEL = LevelTable()
"""The levels of the log of this process."""


def configure(level: str = "info", *, as_json: bool = False, content: bool = False) -> None:
    """Set up logging for the process at one of LEVELS. `content`: also log the text of turns, at level debug."""
    import structlog  # with the redactor it takes 0.3 s to import, and an error of the command line needs neither

    from dragoman.gateway.observability.log_throttle import LineLimit

    LEVEL.change(level)
    LEVEL.shows_content = content
    processors: list[Any] = [
        _with_component,
        structlog.processors.format_exc_info,
        _without_secrets,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if as_json:
        processors.append(structlog.processors.JSONRenderer())  # escapes by itself
    elif sys.stderr.isatty():
        processors += [
            _escape_for_terminal,
            structlog.dev.ConsoleRenderer(
                colors=may_use_colours(),
                exception_formatter=structlog.dev.plain_traceback,
            ),
        ]
    else:
        processors += [_escape, structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"])]
    _STDERR.open(processors)  # without a filter: it reports dropped lines at each level
    structlog.configure(
        processors=[_by_level, LineLimit(time.monotonic_ns), *processors],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=LineLogger,
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers = [handler for handler in root.handlers if not isinstance(handler, _Bridge)] + [_Bridge()]


def may_use_colours() -> bool:
    """Return False if the environment asks for no colours: by NO_COLOR, or by a terminal that has none."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def escaped(text: str) -> str:
    """Return the text with every control character except newline escaped, for example `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode() for char in text
    )


def write_line(line: str, stream: TextIO) -> None:
    """Write a line to `stream`, ignoring errors. Lines for stderr keep their order with the log."""
    if stream is sys.__stderr__ and _STDERR.queue is not None:
        _STDERR.queue.put(line)
        return
    with contextlib.suppress(OSError, ValueError):  # ValueError: the stream was closed
        print(line, file=stream, flush=True)


class LineLogger:
    """A logger that writes lines to stderr and ignores write errors, because a log must not end its program."""

    def __init__(self, component: str = "") -> None:
        self.component = component

    def msg(self, message: str) -> None:
        write_line(message, sys.stderr)

    log = debug = info = warn = warning = error = critical = exception = msg


class _Stderr:
    """The only log queue of this process's stderr, however often logging is set up."""

    def __init__(self) -> None:
        self.queue: LogQueue | None = None
        self._processors: list[Any] = []

    def open(self, processors: list[Any]) -> None:
        """Open the queue, unless sys.stderr was replaced, as in a test that captures it."""
        stderr = sys.__stderr__
        if stderr is None or sys.stderr is not stderr:
            return
        self._processors = processors
        if self.queue is None:
            self.queue = LogQueue(stderr.fileno(), self._report)
            atexit.register(self.queue.flush)

    def _report(self, count: int) -> str:
        fields: Any = {"event": "log lines dropped because stderr was not read", "count": count}
        for processor in self._processors:
            fields = processor(None, "warning", fields)
        return str(fields)


_STDERR = _Stderr()


class _Bridge(logging.Handler):
    """A handler that passes warnings and errors of libraries (aiohttp, asyncio) to structlog."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        """Log one record of the standard library's logging."""
        try:
            text = record.getMessage()
        except (TypeError, ValueError):  # its arguments do not fit its format
            text = str(record.msg)
        import structlog

        level = min(record.levelno // 10 * 10, logging.CRITICAL)
        structlog.get_logger(record.name).log(level, text, logger=record.name, exc_info=record.exc_info or None)


def _by_level(logger: object, method: str, event: Fields) -> Fields:
    """Drop a line whose level is below that of its component."""
    if not LEVEL.passes(getattr(logger, "component", ""), method):
        import structlog

        raise structlog.DropEvent
    return event


def _with_component(logger: object, _name: str, event: Fields) -> Fields:
    """Add the component to a line, so that its lines can be found and its level can be changed."""
    component = getattr(logger, "component", "")
    if component:
        event.setdefault("logger", component)
    return event


# -- processors --------------------------------------------------------------------------------------------


def prepare_redaction() -> None:
    """Import the module that removes secrets from log lines, which takes 25 ms."""
    import_module("dragoman.gateway.recording.redaction.rules")


def _without_secrets(_logger: object, _name: str, event: Fields) -> Fields:
    from dragoman.gateway.recording.redaction.rules import redact_text

    for key, value in event.items():
        if isinstance(value, str):
            event[key] = redact_text(value)
        elif isinstance(value, list):
            event[key] = [redact_text(item) if isinstance(item, str) else item for item in value]
    return event


def _escape(_logger: object, _name: str, event: Fields) -> Fields:
    """Escape control characters in all keys and values; LogfmtRenderer escapes the newlines of values."""
    return {_key(key): _value(value) for key, value in event.items()}


def _escape_for_terminal(_logger: object, _name: str, event: Fields) -> Fields:
    """Like `_escape`, but indent further lines of a value, so that none looks like a log line."""
    fields = ((_key(key), _value(value)) for key, value in event.items())
    return {key: value.replace("\n", CONTINUED) if isinstance(value, str) else value for key, value in fields}


def _key(key: str) -> str:
    return "_".join(escaped(key).split())


def _value(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | float) else escaped(str(value))
