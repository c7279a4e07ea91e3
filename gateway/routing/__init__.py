"""Which session: the router brings commands to the sessions of a route, which are made and found here.

router    commands to sessions                sessions   made, found behind doors, dropped
roster    by their names, and as a list       policy     who may see, open and answer
door      by which listener a link came       recall     a resumed conversation, brought into its session
shared    one connection for many sessions    ids        functions of what is known
"""
