"""Rules from pando messages to canonical items: one function for each message, in the order of the wire modules."""
