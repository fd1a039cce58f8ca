"""`python -m lstoc_core`, also installed as `lstoc`: the command line, or what to install so that it works."""

import re
import sys
from importlib.metadata import requires

_DISTRIBUTION = {"PIL": "pillow"}
"""Libraries that are installed under another name than they are imported."""


def main(args: list[str] | None = None) -> None:
    """Run the command line; where a library of an extra is missing, say which extra to install: exit code 2."""
    try:
        from lstoc_core.cli import main as run

        run(args)
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        extra = extra_of(library)
        if extra is None:
            raise
        print(f"lstoc: {library} is not installed; get it with: pip install 'lstoc-core[{extra}]'", file=sys.stderr)
        sys.exit(2)


def extra_of(library: str) -> str | None:
    """The extra of this package that a library belongs to, by the name it is imported by; None if there is none."""
    wanted = _DISTRIBUTION.get(library, library)
    for requirement in requires("lstoc-core") or ():
        if match := re.fullmatch(r"([\w.-]+).*extra == ['\"](\w+)['\"]", requirement):
            name, extra = match.groups()
            if name == wanted:
                return extra
    return None


if __name__ == "__main__":
    main()
