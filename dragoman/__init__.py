"""A gateway between AI-agent clients and AI-agent backends that speak different wire dialects.

In the repository the folders `gateway`, `adapters` and `mappings` stand at the top, and this package links to them; a
wheel holds them as real folders. The only name that is imported is `dragoman`.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
