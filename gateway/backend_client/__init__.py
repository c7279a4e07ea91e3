"""The client of a backend that the commands `send`, `chat` and `drive` use.

app_thread   runs an app in a thread
client       connects to a backend, with blocking calls
in_process   its link to a gateway in the same process, without a wire
turn_runner  runs one turn after the other, with the questions of each and their answers, line by line
"""
