"""Folders of pods, and directories of such folders, as listeners and as backends.

folder      as a listener: the folder of one pod, and its entry in the table of running pods
directory   as a listener: a folder for each session
live        as a backend: the pods that run in a directory
index       finds running pods by name, finds free ones, and sorts them by time
"""
