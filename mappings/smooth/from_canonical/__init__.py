"""Rules from canonical items to smooth messages: the mirror of to_canonical, in the same order."""
