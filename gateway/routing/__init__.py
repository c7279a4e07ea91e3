"""The router of a route, and its sessions: how they are made, named and found, and who may use them.

router         brings commands to sessions         session_commands  list, open, resume, show and delete them
sessions       made, published and dropped         session_factory   their first state
session_index  found by their names                session_list      their order in lists, and the pages
ids            ids that survive a restart          quota             how many sessions a principal may have
policy         who may see, open and answer        publications      clients that subscribe to everything
past_sessions  their owners, also on other routes  listener_sessions the sessions behind listeners
unopened       asked for, and not opened yet       busy              with an open turn or input
"""
