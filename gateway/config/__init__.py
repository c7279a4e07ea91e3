"""The configuration: its model, the file, and the check whether it works.

model    limits, routes and their options     check    every error of a file
lines    the line of a key in the file        shape    unknown, missing and ill-typed keys
probe    the reachability of the backends
startup  what will not work on this machine
"""
