"""A process that runs items as they come on standard input and answers one JSON line each; it may die at any sample.

The name of the case it is in stands in a small file (`--breadcrumb`), so that the parent knows what killed it.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import sys

CRUMB_BYTES = 256


def main() -> None:
    """Serve until standard input closes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", required=True)
    parser.add_argument("--breadcrumb", required=True)
    parser.add_argument("--samples", type=int, default=0)
    options = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever an op prints must not mix with the answers

    import torch

    torch.set_num_threads(1)
    if options.device != "cpu":
        from trnsim import runtime

        runtime.start()  # does nothing where `import torch` has found the device by its entry point
    from .cases import Item
    from .engine import run_item

    with open(options.breadcrumb, "r+b") as file, mmap.mmap(file.fileno(), CRUMB_BYTES) as crumb:

        def leave(key: str) -> None:
            crumb[:] = key.encode()[:CRUMB_BYTES].ljust(CRUMB_BYTES, b"\0")

        leave("")
        answers.write("ready\n")
        for line in sys.stdin:
            request = json.loads(line)
            item = Item(suite=request["suite"], name=request["name"], dtype=request["dtype"])
            leave("(building samples)")
            result = run_item(item, options.device, options.samples or None, frozenset(request["skip"]), leave)
            answers.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
