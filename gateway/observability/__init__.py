"""Logs, counters and traces: they tell an operator how the gateway is doing, and what was lost.

logs        log lines on stderr                  log_queue      the thread that writes them
audit       who opened, answered, was refused    log_throttle   at most one line a second
faults      the faults of one link               ledger         messages that were not delivered
traffic     frames, bytes and times by dialect   line_limit     the number of log lines of a kind
turn_watch  the moments of a turn                tracing        spans of OpenTelemetry
trace_context  W3C trace contexts
"""
