"""Logs, counters and traces: they tell an operator how the gateway is doing, and what was lost.

The metrics for Prometheus are in gateway/ops/metrics.py.

logs           log lines on stderr
log_queue      the thread that writes them
log_throttle   bounds the log lines about what can happen often
audit          lines about who opened, answered and was refused
ledger         counts the messages that were not delivered
traffic        counts frames, bytes and times, by dialect
turn_watch     notes the moments of a turn
trace_context  contexts of W3C traces
tracing        spans of OpenTelemetry
"""
