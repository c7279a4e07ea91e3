"""Keep secrets out of recordings (docs/design.md, section 8): pure, without files, clock or randomness.

redactor         steps on their way into the file    held_text       streamed text, held back and released
frame_redactor   frames with secrets are emptied     field_texts     their texts, joined by field
values           events and commands, and JSON in them
finder           secrets in a text                   shapes          the built-in shapes of secrets
prefixed_keys    keys with a fixed prefix            spans           places of secrets, and placeholders
paths            the user's JSON paths               rules           all of these, and the user's own patterns
"""
