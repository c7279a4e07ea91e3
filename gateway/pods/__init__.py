"""The folders of pods and directories of such folders, as listeners and as backends of the gateway.

folder     one pod's folder, and where pods keep theirs      live   what the folders of a directory show
directory  a folder for each session                         index  its pods by name, by what is free, and by time
allocation the entry of a pod in the table of running pods
"""
