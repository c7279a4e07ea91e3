"""The protocol state of a codewhale link: `client` to a server that we launched, `server` to a client."""
