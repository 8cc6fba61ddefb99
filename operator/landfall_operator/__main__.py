"""Entry point of ``python -m landfall_operator``."""

import sys

from landfall_operator.main import main

sys.exit(main())
