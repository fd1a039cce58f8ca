"""Where things are: the repository's directories, found from this file, never from the caller's."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
DATA = ROOT / "data"
BUILD = ROOT / "build"
"""Everything a command may delete and make again; ignored by git."""


def figures() -> Path:
    """Directory figures are written to: `figures/`, unless LSTOC_FIGURES names another."""
    directory = Path(os.environ.get("LSTOC_FIGURES", ROOT / "figures"))
    directory.mkdir(parents=True, exist_ok=True)
    return directory
