"""Show a recording to people and other tools.

transcript   the entries that people read      page         a recording as one HTML page
compare      two conversations turn by turn    cloudevents  a recording as CloudEvents
projected    a recording as frames of a dialect
"""
