"""The command line of dragoman: one file a command, named like it (`import` is import_.py).

program       the table of commands, errors and exit codes
options       options that several commands have
output        prints JSON or a table, or writes a new file
running       the event loop, logs, signals and ops port of a command
recordings    opens recordings, and shows progress
terminal      the terminal of `chat`, and the events of a turn in it
quick_start   spends less CPU and memory at the start
plain_values  converts values without pydantic
"""
