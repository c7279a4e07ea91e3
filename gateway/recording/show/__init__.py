"""Show a recording to people and other tools.

transcript   the entries that people read      turns        the turns in figures
terminal     both on a terminal                compare      two conversations turn by turn
page         a recording as one HTML page      wire         the rows of frames and events in it
projected    a recording as frames of a dialect, and what clients did not get
cloudevents  a recording as CloudEvents
"""
