"""The command line of dragoman: one file a command, named like it (`import` is import_.py).

program       the table of commands, errors and exit codes
options       options that several commands have
output        prints JSON or a table, or writes a new file
running       the event loop, logs and signals of a command
interrupts    raises signals as exceptions in a command, so that it can print its result
ops_port      the ops port of a command that serves
recordings    opens recordings, and shows progress
terminal      the terminal of `chat`
turn_display  shows the events of a turn in `chat`
quick_start   spends less CPU and memory at the start
plain_values  converts values without pydantic
"""
