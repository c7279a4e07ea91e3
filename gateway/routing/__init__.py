"""The sessions of a route: how they are made, named and found, and who may use them.

sessions       made, published and dropped         session_factory   their first state
session_index  found by their names                session_list      listed in pages
ids            ids that survive a restart          session_accounts  places in lists, owners, losses, recordings
policy         who may see, open and answer        quota             how many sessions a principal may have
entrances      the sessions behind listeners       publications      clients that subscribe to everything
unopened       asked for, and not opened yet       past_sessions     not open any more
busy           with an open turn or input          catch_ups         clients that read slowly
"""
