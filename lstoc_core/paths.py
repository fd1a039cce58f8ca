"""Where things are: the directories of a checkout of the repository, found from this file, never from the caller's.

The installed package has no repository around it: `checkout` is then False, and what needs the repository's files asks
`require_checkout`.
"""

import os
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
DATA = ROOT / "data"
BUILD = ROOT / "build"
"""Everything a command may delete and make again; ignored by git."""


class NoCheckout(RuntimeError):
    """Something needs files of the repository, but the package is installed without them."""


class NotWritable(OSError):
    """A place that results are to be written to does not take them. Nothing has been run."""


def checkout() -> bool:
    """Whether the package lies in a checkout of the repository."""
    return (ROOT / "pyproject.toml").is_file()


def require_checkout(what: str) -> None:
    """NoCheckout, with the remedy, unless the package lies in a checkout; what: the subject of the sentence."""
    if not checkout():
        raise NoCheckout(
            f"{what} needs a checkout of the repository: clone it and install with `pip install --editable .`"
        )


def require_writable(directory: Path, what: str) -> None:
    """Make the directory; NotWritable, with the remedy, if no file can be written there. what: how it was given."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(b"a disk may be full")
    except OSError as error:
        raise NotWritable(
            f"{what} {directory} cannot be written to ({error.strerror}): name another place or make room there"
        ) from error


def figures() -> Path:
    """Directory figures are written to: LSTOC_FIGURES if set, else `figures/` of the checkout or the caller's."""
    given = os.environ.get("LSTOC_FIGURES")
    directory = Path(given or (ROOT / "figures" if checkout() else "figures")).absolute()
    require_writable(directory, "LSTOC_FIGURES" if given else "the directory of figures")
    return directory
