"""The configuration: its model, the file, and the check whether it works.

model          limits, routes and their options   check          every error of a file
source         read a small file                  paths          relative paths
interpolation  references in its strings          lines          the line of a key in the file
shape          unknown or ill-typed keys          access         keys that say who may use a route
role_names     names in `roles`                   ops_address    the address of the ops port
upstreams      several upstreams of a route       socket_folders the folders of Unix sockets
probe          the reachability of backends       local_sockets  servers of this machine
startup        what will not work here            display        show a configuration in force
file_watch     notice changes of the file
"""
