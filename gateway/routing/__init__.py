"""The sessions of a route: how they are made, named and found, and who may use them.

sessions   made, published and dropped      session_index   found by their names, and listed
policy     who may see, open and answer     ids             ids that are the same after a restart
"""
