"""The gateway as a process of its operating system.

systemd        the service manager: messages to it, and listening sockets from it
runtime        the interpreter, the threads and the free memory of a serving program
private_files  files and folders for the owner alone, never written through a link
signals        the signals that end the gateway or a command, or reload the configuration
"""
