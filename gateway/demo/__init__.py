"""A demo backend, demo clients and a demo conversation, to try dragoman without an agent."""
