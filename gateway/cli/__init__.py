"""The command line of dragoman: one file a command, named like it (`import` is import_.py).

entry        the process: signals and standard descriptors
program      the table of commands, errors and exit codes     running      event loop, logs and signals of a command
options      options that several commands have               progress     progress bars on a terminal
recordings   open recordings with progress                    output       JSON, or a new file
redactor     the redactor of `redact`, `scan` and `import`    quick_start  less CPU and memory at the start
terminal     the terminal of `chat`                           turn_display the events of a turn in `chat`
ops_port     the ops port of a serving command                ops_table    what the ops port answers, as tables
plain_values values of the command line, without pydantic
"""
