"""A backend, a client and a conversation to try dragoman with, no agent needed."""
