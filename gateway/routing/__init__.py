"""The router of a route, and its sessions: how they are made, named and found, and who may use them.

router             brings commands to sessions
session_commands   lists, opens, resumes, shows and deletes sessions
sessions           makes, publishes and drops sessions
session_factory    makes the first state of a session
session_index      finds sessions by their names
session_list       keeps their order in lists, and makes pages
session_sets       sessions that are not opened yet, busy, or shared by a listener
publications       publishes sessions to clients that subscribe to all of them
past_sessions      the owners of forgotten sessions, also on other routes
ids                makes ids that survive a restart
policy             who may see, open and answer, and how many sessions a principal may have
"""
