"""Connections to backends, and the kinds of backend, which share the interface BackendKind to the router.

kind             BackendKind, the interface to the router
single           the kind with one session (a pod)
conversations    the kind with a connection for each session (smooth, codewhale, a recording)
shared           the kind with one connection for all sessions (pando): each answer and text goes to its session
pods             the kind for a directory of pods

upstream         one connection, made again when it is lost
target           the backend of a route as operators see it, the connection to it, and how often it is dialled
failover         chooses which of several upstreams gets new sessions
status           counts the connections of a route and their failures
spare_children   chooses the child that is ended when a further one is needed

asking           holds items for a backend until it has answered a question of the gateway
history_loader   loads the history of a resumed conversation, what was missed of it, and long ones for clients
catalog          lists the sessions in a backend's store
list_wait        holds actions until a backend has listed its sessions
unused           the backend's sessions that no client uses
"""
