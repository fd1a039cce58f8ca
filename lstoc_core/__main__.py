"""`python -m lstoc_core`."""

from lstoc_core.cli import main

main()
