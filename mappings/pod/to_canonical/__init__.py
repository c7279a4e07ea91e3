"""Rules from pod messages to canonical items: one function for each message, in the order of docs/dialects/pod.md."""
