"""The bottom layer: the dialects and the canonical model.

All code here is pure: it uses no sockets, clock, files, randomness or logging.

canonical        the model between all dialects        smooth, pod, pando, codewhale: the dialects
dialect          the interface of a dialect            rules        a type -> the function that maps it
codec            frames to wire structs and back       fidelity     the matrix that is made from all rules
extras           fields without a canonical place      losses       counts of what could not be expressed
jsonrpc          JSON-RPC for both sides of a link     errors       the two kinds of errors
opening          the session that a link opens first   reflection   the types of structs
forms            forms, asked in words                 parked_turn  events held back by a question in words
stored_answers   answers cut by questions in words     alike        frames of pieces that came together
large_parts      parts beyond `max_command`            value_count  a limit on the JSON values of a message
bounded          a dict of bounded size                named_uuid   UUIDs that are computed from a name
rfc3339          times as text
"""

if __name__ != "dragoman.mappings":  # a second copy of each module would exist beside the installed one
    raise ImportError("this folder is installed as dragoman.mappings: write `import dragoman.mappings`")
