"""Connections to backends, and the kinds of backend, behind one class that the router asks.

kind             BackendKind, the interface to the router
single           the kind with one session (a pod)
conversations    the kind with a connection for each session (smooth, codewhale, a recording)
shared           the kind with one connection for all sessions (pando)
pods             the kind for a directory of pods

upstream         one connection, made again when it is lost
target           what can be dialled, and what operators are told of it
dials            bounds how often a route dials
failover         chooses which of several upstreams gets new sessions
status           counts the connections of a route and their failures
spare_children   chooses the child that is ended when a further one is needed

asking           holds items for a backend until it has answered a question of the gateway
history_loader   loads the history of a resumed conversation, and what was missed of it
long_histories   reads the long histories that clients ask for, page by page
catalog          lists the sessions in a backend's store
list_wait        holds actions until a backend has listed its sessions
demultiplexing   gives the answers and texts of a shared connection to their sessions
unused           the sessions that the backend has and nobody uses
"""
