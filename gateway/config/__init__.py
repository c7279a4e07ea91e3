"""The configuration: its model, the file, and the check whether it works.

model          limits, routes and their options
check          finds every error of a file
route_rules    checks which endpoints and keys of routes cannot be used together
shape          finds unknown keys and values of a wrong type
access         checks the keys that say who may use a route
source         reads a small file
lines          finds the line of a key in the file
references     replaces references to variables, secrets and relative paths
startup        warns of what will not work on this machine, and tries to reach the backends
local_sockets  finds servers of this machine, and folders in which others could replace a socket
ops_address    the address of the ops port
display        shows a configuration in force
"""
