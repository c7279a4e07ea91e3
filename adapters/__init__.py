"""Transports: bytes with boundaries, in and out. What the bytes mean is the business of `mappings`."""

if __name__ != "dragoman.adapters":  # a second copy of each module would exist beside the installed one
    raise ImportError("this folder is installed as dragoman.adapters: write `import dragoman.adapters`")
