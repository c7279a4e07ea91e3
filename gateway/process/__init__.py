"""The gateway as a process of its operating system.

systemd            tells the service manager how far the gateway is
inherited_sockets  the listening sockets that a service manager passes
heap               the free memory of the C library, which goes back to the system
interpreter        settings of the Python interpreter
threads            the threads that start with the gateway, and how they wait for the CPU
private_files      files and folders for the owner alone, never written through a link
signals            the signals that end the gateway, or reload its configuration
"""
