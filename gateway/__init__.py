"""The top layer: sessions, routing and everything that has a task, a clock or a file."""

if __name__ != "dragoman.gateway":  # a second copy of each module would exist beside the installed one
    raise ImportError("this folder is installed as dragoman.gateway: write `import dragoman.gateway`")
