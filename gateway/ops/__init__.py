"""The ops port: health, metrics and administration of a running gateway over HTTP (docs/operations.md).

server      the listener, in a thread with an event loop of its own
guard       who may ask, and the form of each refusal
heartbeat   the turns of the gateway's event loop
health      whether the gateway is alive and ready
metrics     counters and gauges for Prometheus
admin       the requests of operators, and answers, which makes what they are told
queries     the parameters of each list
openapi     the description of all requests
"""
