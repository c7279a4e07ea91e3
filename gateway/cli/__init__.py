"""The command line of dragoman: one file a command, named like it (`import` is import_.py).

program      the table of commands, errors and exit codes     running       event loop, logs and signals of a command
options      options that several commands have               recordings    open recordings, and progress bars
output       JSON, a table, or a new file                     quick_start   less CPU and memory at the start
terminal     the terminal of `chat`                           turn_display  the events of a turn in `chat`
ops_port     the ops port of a serving command                plain_values  convert values without pydantic
"""
