"""The configuration: its model, the file, and the check whether it works.

model          limits, routes and their options   check          every error of a file
source         read a small file                  paths          relative paths
references     what its strings refer to          lines          the line of a key in the file
shape          unknown or ill-typed keys          access         keys that say who may use a route
role_names     names in `roles`                   ops_address    the address of the ops port
probe          the reachability of backends       socket_folders the folders of Unix sockets
startup        what will not work here            local_sockets  servers of this machine
file_watch     notice changes of the file         display        show a configuration in force
"""
