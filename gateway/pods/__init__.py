"""A gateway among pods: their folders and directories, as listeners and as backends.

runtime    where pods keep their sockets      folder     one pod's folder, with a listener of ours in it
directory  a folder for each session          live       the pods of a directory
"""
