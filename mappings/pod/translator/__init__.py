"""The protocol state of one pod link: `server` for a link with a client, `client` for a link with a pod."""
