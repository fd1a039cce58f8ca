"""What an error says about a name that does not exist: which names are near it."""

import difflib
from collections.abc import Iterable


def unknown(what: str, name: object, known: Iterable[str]) -> str:
    """A sentence for an error message: the unknown name, and the known ones nearest to it, or all if none is near."""
    known = list(known)
    near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.4)
    hint = f"did you mean {', '.join(near)}?" if near else f"choose one of {', '.join(known)}"
    return f"unknown {what} {name!r}; {hint}"
