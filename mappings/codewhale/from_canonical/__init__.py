"""Rules from canonical items to codewhale messages: the mirror of to_canonical, in the same order."""
