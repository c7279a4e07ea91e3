"""A demo backend, demo clients and a demo conversation, to try dragoman without an agent.

app      the backend, in any dialect     clients       clients of the four dialects
backend  what it answers                 conversation  what those clients do, printed
script   how scripts are read: turns     like_real     what the shipped programs say instead of their protocol
scripts  the turns that it plays
"""
