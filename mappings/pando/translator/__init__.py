"""The protocol state of pando links: `client` to a primary, `server` to one caller, `publication` to subscribers."""
