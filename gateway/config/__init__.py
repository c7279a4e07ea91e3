"""The configuration: what can be said, a file that says it, and whether it works.

model    limits, routes and their options     check    everything that is wrong with a file
lines    where in the file a key stands       shape    unknown, missing and ill-typed keys
probe    whether the backends are there
"""
