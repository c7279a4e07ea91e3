"""Rules from canonical items to pando messages: the mirror of to_canonical, in the same order."""
