"""The bottom layer: the dialects and the canonical model.

All code here is pure: it uses no sockets, clock, files, randomness or logging.
"""

if __name__ != "dragoman.mappings":  # a second copy of each module would exist beside the installed one
    raise ImportError("this folder is installed as dragoman.mappings: write `import dragoman.mappings`")
