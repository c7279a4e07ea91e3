"""Transports that carry frames to and from peers. The meaning of the frames belongs to `mappings`."""

if __name__ != "dragoman.adapters":  # a second copy of each module would exist beside the installed one
    raise ImportError("this folder is installed as dragoman.adapters: write `import dragoman.adapters`")
