"""Keep secrets out of recordings (docs/design.md, section 8): pure, without files, clock or randomness.

redactor        cleans steps on their way into the file
held_text       streamed text, held back until it is known to be clean
values          cleans events and commands, and JSON in them
frame_redactor  empties frames with secrets
field_texts     joins the texts of a field, for a secret that is split over frames
finder          finds the secrets in a text
prefixed_keys   finds keys with a fixed prefix
shapes          finds secrets of the other built-in shapes
paths           finds the values at the user's JSON paths
rules           combines these detectors with known secrets and the user's own patterns
spans           the positions of secrets in a text, and their placeholders
"""
