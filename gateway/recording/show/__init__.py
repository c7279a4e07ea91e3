"""Show a recording to people and other tools.

transcript    the entries that people read
turns         the figures of each turn
page          a recording as one HTML page
wire          the rows of that page: frames of backend and clients, and events between them
projected     a recording as frames of a dialect, and the losses of its clients
cloudevents   a recording as CloudEvents
compare       the differences of two conversations, turn by turn
equal_ranges  the equal parts of two sequences
"""
