"""The client of a backend that the commands `send`, `chat` and `drive` use.

client        connects to a backend, with blocking calls      turn_runner   one turn after the other, with its questions
typed_answer  the answer to a question, typed line by line    in_process    its link to the gateway, without a wire
"""
