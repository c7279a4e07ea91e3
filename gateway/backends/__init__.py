"""Connections to backends, and the kinds of backend, behind one class that the router asks.

upstream        one connection, made again    asking            requests that come before all others
kind            what a router asks            kinds             chooses the kind of a route
single          one session                   pods              a directory of pods
shared          one connection for many       shared_sessions   the sessions of that connection
conversations   one opened for each session   catalog           what a backend's store lists
history_loader  whole histories, page by page
"""
