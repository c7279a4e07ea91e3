"""The top layer: sessions, routing and everything that has a task, a clock or a file."""
