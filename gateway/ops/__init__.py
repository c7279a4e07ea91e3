"""The ops port: health, metrics and administration of a running gateway over HTTP (docs/operations.md).

server        the listener, its routes and its connections, in a thread with an event loop of its own
guard         checks who may use the port, and refuses requests
gateway_loop  runs requests in the gateway's event loop, and notices if the loop is stuck
health        whether the gateway is alive and ready
metrics       counters and gauges for Prometheus
admin         the requests of operators, and their description
answers       what the answers to them contain
queries       the parameters of each list
client        asks the ops port, for the command line
"""
