"""Transports that carry frames to and from peers. The meaning of the frames belongs to `mappings`.

base        the interface to the gateway          websocket, unix, zeromq, stdio: the transports
inbound     frames on their way to their sink     lines     splits a stream into lines
binding     binds the addresses of a host         closing   closes an asyncio listener
flag        a small asyncio.Event                 meter     counts the bytes that a peer holds
hops        gateways that a connection came through
lookup      addresses of hosts, in threads        resolver  the same for HTTP connections
host_names  names in HTTP requests and of peers   send_queue  bytes that wait for a peer, or arrived
"""

if __name__ != "dragoman.adapters":  # a second copy of each module would exist beside the installed one
    raise ImportError("this folder is installed as dragoman.adapters: write `import dragoman.adapters`")
