"""`python -m analyst.cli`."""

import sys

from analyst.cli.app import main

sys.exit(main())
