"""The wire format of pando: structs with the names of the wire, and one codec for each direction."""
