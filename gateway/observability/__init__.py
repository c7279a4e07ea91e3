"""Logs, counters and traces, which show an operator the state of the gateway and its losses.

The metrics for Prometheus are in gateway/ops/metrics.py.

logs           log lines on stderr
log_queue      the thread that writes them
log_throttle   bounds the log lines about what can happen often
audit          writes the audit log: who opened, answered or was refused
ledger         counts the messages that were not delivered
traffic        counts frames, bytes and times, by dialect
turn_watch     records the times of a turn
trace_context  contexts of W3C traces
tracing        spans of OpenTelemetry
"""
