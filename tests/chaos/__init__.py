"""Fault injection: broken connections, killed processes and malicious input around a running gateway.

    faults, proxy     what can go wrong with a connection, and the proxy that does it
    clients           small clients of all four dialects that count the ends of each turn
    pair              one client dialect, one backend dialect, a proxy on both sides of a gateway
    kills             clients, backends, children and gateways that get SIGKILL
    shapes            the most expensive input for each parser
    innocent          a process that pings all the while, and measures
    soak              many clients for a long time: slopes of memory, descriptors, tasks and timers
    report            the tables of docs/reliability.md

`make chaos` and `make soak` run `python -m tests.chaos`; test_chaos.py runs a small part of it in CI.
"""
