"""Transports that carry frames to and from peers. The meaning of the frames belongs to `mappings`.

base            the interface to the gateway: Transport and Listener
websocket, unix, zeromq, stdio: the transports

What they share:

inbound         frames on their way to the link that takes them
line_transport  lines over a connected stream: the transport of Unix sockets
lines           splits a stream of bytes into lines
meter           counts the bytes that a peer makes the gateway hold
send_queue      counts the sent bytes that the kernel holds, and those that arrived
listening       binds the addresses of a host, and closes an asyncio listener
flag            an asyncio.Event of fewer bytes
hops            counts the gateways that a connection came through
lookup          looks up the addresses of hosts, in threads
resolver        passes these addresses to aiohttp
host_names      checks the names in HTTP requests, and recognises loopback addresses
"""

if __name__ != "dragoman.adapters":  # a second copy of each module would exist beside the installed one
    raise ImportError("this folder is installed as dragoman.adapters: write `import dragoman.adapters`")
