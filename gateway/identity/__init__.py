"""The principals of clients, and how listeners find them (docs/security.md, section 1).

principal        the principal of a client, and the protocol that names it
authenticators   bearer tokens, client certificates, and users of this machine
json_web_tokens  tokens that an authority has signed
roles            the commands that a principal may give on a route
listeners        the authentication of listeners, and their failed attempts
"""
