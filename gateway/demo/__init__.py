"""A demo backend and demo clients, to try dragoman without an agent. `dragoman demo` (gateway/cli/demo.py) uses both.

backend  the demo backend as an app, in any dialect, and what it answers
script   reads a script: its events and delays
scripts  a folder with the scripts that it plays
clients  clients of all dialects
"""
