"""`python -m binhop` is the command `binhop`."""

import sys

from binhop.cli import main

sys.exit(main())
