"""Show a recording to people and other tools.

transcript   the entries that people read      turns        the turns in figures
terminal     both on a terminal                sessions     the sessions of a folder
page         a recording as one HTML page      cloudevents  a recording as CloudEvents
projected    a recording as frames of a dialect
losses       what clients did not get          compare      two conversations turn by turn
"""
