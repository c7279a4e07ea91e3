"""The router of a route, and its sessions: creation, names, look-up and access.

router             passes commands to sessions
session_commands   lists, opens, resumes, shows and deletes sessions
sessions           creates, publishes and drops sessions, with the options of the route
session_index      finds sessions by their names
session_list       keeps their order in lists, and makes pages
session_sets       sessions that are not opened yet, busy, shared by a listener, or published to subscribers
postponed          holds actions of clients that wait for a backend
past_sessions      the owners of forgotten sessions, also on other routes
ids                makes ids that survive a restart
policy             decides who may see, open and answer sessions, and how many a principal may have
"""
