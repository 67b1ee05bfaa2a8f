"""python -m overstory.cli: the same as the command overstory."""

import sys

from overstory.cli import main

if __name__ == "__main__":
    sys.exit(main())
