"""A gateway among pods: their folders and directories, as listeners and as backends.

folder     one pod's folder, and where pods keep theirs      live   what the folders of a directory show
directory  a folder for each session                         index  its pods by name, by what is free, and by time
"""
