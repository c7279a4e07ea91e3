"""Logs, counters and traces: they tell an operator how the gateway is doing, and what was lost.

logs           log lines on stderr                  log_queue      the thread that writes them
audit          who opened, answered, was refused    log_throttle   at most one line a second
ledger         messages that were not delivered     line_limit     the number of log lines of a kind
traffic        frames, bytes and times by dialect   turn_watch     the moments of a turn
trace_context  W3C trace contexts                   tracing        spans of OpenTelemetry
"""
