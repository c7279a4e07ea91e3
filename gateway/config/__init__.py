"""The configuration: its model, the file, and the check whether it works.

model          limits, routes and their options   check          every error of a file
source         read a small file                  lines          the line of a key in the file
references     what its strings refer to: variables, secrets, relative paths
shape          unknown or ill-typed keys          access         keys that say who may use a route
probe          the reachability of backends       ops_address    the address of the ops port
startup        what will not work here            local_sockets  servers of this machine, folders of its sockets
file_watch     notice changes of the file         display        show a configuration in force
"""
