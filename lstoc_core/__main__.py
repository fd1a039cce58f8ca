"""`python -m lstoc_core`."""

from .cli import main

main()
