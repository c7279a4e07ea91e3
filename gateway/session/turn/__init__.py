"""The normal form of a turn: what every dialect can rely on, whatever its backend says or leaves out."""

from dragoman.gateway.session.turn.normal_form import NormalForm

__all__ = ["NormalForm"]
