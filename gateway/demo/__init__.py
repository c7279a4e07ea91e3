"""A demo backend and demo clients, to try dragoman without an agent. `dragoman demo` (gateway/cli/demo.py) uses both.

app      the backend, in any dialect     script    how scripts are read: turns
backend  what it answers                 scripts   the turns that it plays
clients  clients of the four dialects
"""
