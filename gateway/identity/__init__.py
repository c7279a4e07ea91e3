"""The principals of clients, and how listeners find them (docs/security.md, section 1).

principal        the principal of a client, and the commands that its role allows
authenticators   bearer tokens, client certificates, and users of this machine
json_web_tokens  tokens that an authority has signed
listeners        the authentication of listeners, and their failed attempts
"""
