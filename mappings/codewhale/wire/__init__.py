"""The wire format of codewhale: structs with the names of the wire, and one codec for each direction."""
