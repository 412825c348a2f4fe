"""`python -m claims [name ...]`: run the claims (all, or the files named) and print a row for each."""

import sys
import time

from rich.console import Console
from rich.table import Table

from claims import claim_modules


def main(names: list[str]) -> int:
    """Run and print; the exit status says whether every claim could be measured, not whether it reproduced."""
    modules = claim_modules()
    known = [module.__name__.removeprefix("claims.") for module in modules]
    unknown = sorted(set(names) - set(known))
    if unknown:
        Console(stderr=True).print(f"no claim named {', '.join(unknown)}; there is: {', '.join(known)}")
        return 2
    table = Table("paper", "claim", "measured here", "reproduced", "seconds", show_lines=True)
    for name, module in zip(known, modules, strict=True):
        if names and name not in names:
            continue
        start = time.perf_counter()
        result = module.run()
        numbers = "\n".join(f"{key} {value:.3f}" for key, value in result.numbers.items())
        measured = f"{result.sentence}\n{numbers}"
        seconds = f"{time.perf_counter() - start:.0f}"
        table.add_row(module.CLAIM.paper, module.CLAIM.says, measured, "yes" if result.reproduced else "no", seconds)
    Console(width=160).print(table)
    return 0


sys.exit(main(sys.argv[1:]))
