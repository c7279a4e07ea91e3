"""The bottom layer: the dialects and the canonical model.

All code here is pure: it uses no sockets, clock, files, randomness or logging.

canonical       the model between all dialects
smooth, pod, pando, codewhale: the dialects

dialect         the interface of a dialect to the gateway
rules           the table of one direction: a type, and the function that maps it
fidelity        the fidelity matrix, made from all tables
codec           frames to wire structs and back
jsonrpc         JSON-RPC for both sides of a link
opening         the session that a link opens first
in_words        questions in words: events that wait for the answer, and answers as stores have them
forms           the forms of a backend, asked in words
extras          fields without a canonical counterpart
losses          counts of content that could not be translated
errors          the two kinds of errors

alike           encodes pieces of a text, whose frames differ only in the text and the time
untyped         JSON that is read without a type
value_count     a limit on the JSON values of a message
reflection      the types of structs
handlers        tables of functions by the type of event that each handles
bounded         a dict of bounded size
named_uuid      UUIDs that are computed from a name
rfc3339         times as text
"""

if __name__ != "dragoman.mappings":  # a second copy of each module would exist beside the installed one
    raise ImportError("this folder is installed as dragoman.mappings: write `import dragoman.mappings`")
