"""Programs that a client starts in place of the server that it knows: `dragoman-pod` and `dragoman-codewhale`.

route        selects the route to serve, and runs and ends the program
parent       reports the events of a launched pod to the parent that started it
state_files  keep a pod's conversation, and show the pod to that parent
"""
