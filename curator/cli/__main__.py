"""`python -m curator.cli`."""

import sys

from curator.cli.app import main

sys.exit(main())
