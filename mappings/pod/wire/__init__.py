"""The wire format of pod: structs with the names of the wire, and one codec for each direction."""
