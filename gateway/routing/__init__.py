"""Bring commands to the sessions of a route.

router          commands to sessions           sessions   made, named, published and dropped
session_index   sessions by their names        policy     who may see, open and answer
ingress         the listener of a link         ids        ids of sessions, functions of what is known
"""
