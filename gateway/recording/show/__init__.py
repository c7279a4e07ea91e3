"""Show a recording to people and other tools.

transcript   the entries that people read      turns        the turns in figures
page         a recording as one HTML page      wire         the rows of frames and events in it
compare      two conversations turn by turn    equal_ranges  the equal parts of two sequences
projected    a recording as frames of a dialect, and what clients did not get
cloudevents  a recording as CloudEvents
"""
