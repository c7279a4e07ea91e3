"""Connections to backends, and the kinds of backend, behind one class that the router asks.

upstream        one connection, made again    asking           requests that come before all others
status          the state of connections      failover         which of several upstreams gets new sessions
kind            what a router asks            single           one session
pods            a directory of pods           shared           one connection for many sessions
conversations   one opened for each session   catalog          what a backend's store lists
history_loader  whole histories, in pages     demultiplexing   answers and text over such a connection
unused          sessions that nobody uses     dials            how often a route dials
target          what can be dialled, and what operators are told of it
list_wait       actions that wait until a backend has listed its sessions
spare_children  which child is ended when a further one is needed
"""
