"""A demo backend and demo clients, to try dragoman without an agent. `dragoman demo` (gateway/cli/demo.py) uses both.

app      the backend, in any dialect     clients       clients of the four dialects
backend  what it answers                 like_real     what the shipped programs say instead of their protocol
script   how scripts are read: turns     scripts       the turns that it plays
"""
