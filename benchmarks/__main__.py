"""`python -m benchmarks` runs them all."""

from __future__ import annotations

import sys

from benchmarks.run_all import main

sys.exit(min(main(sys.argv[1:]), 100))
