"""One page with every figure and table of the paper, from stored records alone.

python experiments/report.py

The page is a single HTML file that needs no network; each number links to the folder of its records. Nothing is run and
nothing is downloaded, and the same records give the same bytes.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from pyroclaw.errors import InputError
from pyroclaw.experiments.missing import RESULTS
from pyroclaw.experiments.pages import put_between, write
from pyroclaw.experiments.report_cells import markdown_table
from pyroclaw.experiments.report_page import markdown, page
from pyroclaw.experiments.report_records import collect
from pyroclaw.experiments.report_tables import overview
from pyroclaw.experiments.report_tuning import tuning

FAILED = 2


@dataclass(frozen=True)
class Options:
    """Write a page with every figure and table of the paper, from stored records alone."""

    results: Path = RESULTS
    """Folder of records: BENCHMARK/METHOD/SETTING-FINGERPRINT/seed0 and so on."""
    out: Path = Path("report.html")
    """The page."""
    markdown: Path | None = None
    """Write the tables as Markdown too, to this file."""
    into: Path | None = None
    """Put the table of all methods and benchmarks between the marks of this file, such as README.md."""


def main(argv: list[str] | None = None) -> int:
    options = tyro.cli(Options, args=argv, prog="report")
    try:
        benches = collect(options.results)
        chosen = tuning(benches, options.results)
        write(options.out, page(benches, options.out.parent, chosen))
        if options.markdown:
            write(options.markdown, markdown(benches, options.markdown.parent, chosen))
        if options.into:
            put_between(options.into, "report.py", markdown_table(overview(benches), options.into.parent))
    except InputError as error:
        print(f"report: {error}", file=sys.stderr)
        return FAILED
    counted = sum(len(one.summary["seeds"]) for bench in benches for one in bench.everything())
    places = sum(bool(bench.everything()) for bench in benches)
    print(f"{options.out}: {counted} repetitions on {places} benchmark{'s' * (places != 1)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
