"""Rules from codewhale messages to canonical items: one function for each, in the order of the wire modules."""
