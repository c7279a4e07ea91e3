"""The router of a route, and its sessions: how they are made, named and found, and who may use them.

router             brings commands to sessions
session_commands   lists, opens, resumes, shows and deletes sessions
sessions           makes, publishes and drops sessions
session_factory    makes the first state of a session
session_index      finds sessions by their names
session_list       keeps their order in lists, and makes pages
listener_sessions  the sessions behind listeners
past_sessions      the owners of forgotten sessions, also on other routes
unopened           sessions that clients asked for and the backend has not opened yet
busy               sessions with an open turn or an input that waits
publications       clients that subscribe to all sessions
ids                makes ids that survive a restart
policy             who may see, open and answer
quota              how many sessions a principal may have
"""
