"""Rules from canonical items to pod messages: the mirror of to_canonical, in the same order."""
