"""The wire format of smooth: structs with the names of the wire, and one codec for each direction."""
