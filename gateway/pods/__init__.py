"""A gateway among pods: their folders and directories, as listeners and as backends.

folder     one pod's folder, and where pods keep theirs      live   the pods of a directory
directory  a folder for each session
"""
