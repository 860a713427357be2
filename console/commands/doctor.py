"""``cuzk-top doctor``: what this machine has, what is missing and how to get it."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Doctor has no options of its own."""


def run(args: argparse.Namespace) -> int:
    """Print the checks; exit 3 if something that proving needs is missing."""
    from console.doctor import examine, report

    checks = examine()
    if args.json:
        from dataclasses import asdict

        from console.cli import print_json

        print_json(
            {
                "schema": "cuzk-top/doctor/1",
                "checks": [{k: v for k, v in asdict(check).items() if k != "needed"} for check in checks],
            }
        )
    else:
        print(report(checks))
    return 3 if any(check.needed and not check.ok for check in checks) else 0
