"""Programs that a client starts in place of the server that it knows: `dragoman-pod` and `dragoman-codewhale`.

route        selects the route to serve, and runs and ends the program
parent       reports the events of a launched pod to the parent that started it
child_state  writes the file by which that parent finds the pod
state_file   writes such files
"""
