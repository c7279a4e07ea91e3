"""The protocol state of one smooth link: `server` for a link with a client, `client` for a link with a server."""
