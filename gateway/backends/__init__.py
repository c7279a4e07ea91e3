"""Backends: connections to them, and the kinds that there are, behind one class that the router asks.

upstream        one connection, made again    asking      requests that come before all others
kind            what a router asks            kinds       chooses the kind of a route
single          one session                   pods        a directory of pods
shared          one connection for many       shared_sessions  the sessions of that connection
conversations   one opened for each session   opener      asks a backend to open one
catalog         what its store lists          history_loader, paging  bring histories into sessions
"""
