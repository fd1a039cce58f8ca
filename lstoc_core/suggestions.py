"""What to say when a name is not known: the names nearest to it."""

import difflib
from collections.abc import Iterable


def unknown(what: str, name: object, known: Iterable[str]) -> str:
    """A sentence for an error message: the name, and what it may have been meant for (all known ones, if nothing)."""
    known = list(known)
    near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.4)
    hint = f"did you mean {', '.join(near)}?" if near else f"choose one of {', '.join(known)}"
    return f"unknown {what} {name!r}; {hint}"
