"""Programs that a client launches in the place of the server that it knows: `dragoman-pod` and `dragoman-codewhale`.

route   what both share: which route of whose configuration, and how the program runs and ends
"""
