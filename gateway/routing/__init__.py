"""Which session: the router brings commands to the sessions of a route.

router    commands to sessions                sessions   made, named, published and dropped
roster    sessions by their names             policy     who may see, open and answer
door      the listener by which a link came   ids        ids of sessions, functions of what is known
"""
