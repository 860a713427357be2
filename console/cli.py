"""The command line: finds the command, parses its options, turns expected failures into one line and an exit code."""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import importlib
import os
import sys
from collections.abc import Sequence

from prover.errors import ProverError

COMMANDS: dict[str, str] = {
    "prove": "prove one witness with a snarkjs key",
    "verify": "verify a proof (exit 0 valid, 1 not valid)",
    "setup": "make a development key for a circuit (single party: not for production)",
    "vkey": "export the verifying key of a zkey",
    "bench": "throughput sweep without the console",
    "analyze": "what a daemon's logs say about the GPU's idle time",
    "simulate": "the console on a modelled box: learn the knobs without the hardware",
    "replay": "the console on a recording",
    "knobs": "list the knobs",
    "doctor": "what this machine has and what is missing",
}
"""Command -> one-line help. Each lives in ``console.commands.<name>``; anything else opens the console."""

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""A file's writer reports these in its name (``WriteError``): without one they are of standard output."""

READER_GONE = 128 + 13
"""What a shell reports of a program that SIGPIPE ended: the answer was not told, so it is neither yes nor no."""

BRIEF = frozenset({"prove", "verify", "vkey"})
"""Commands whose process ends with them and makes no garbage: to collect it, at the end above all, only takes time."""

READ_CONFIGURATION = frozenset({None, "bench", "simulate"})
"""Who reads ``--config`` by itself; the others look at it, so that a wrong one is told."""

COMMON_VALUED = frozenset({"--device", "--config", "--set"})
"""Options of all commands that take a value."""

COMMON = COMMON_VALUED | {"--json", "-v", "-vv", "--verbose", "--version", "-h", "--help"}
"""Options of all commands: these may also stand before the command."""

_CONSOLE = "console.commands.open_console"


def version() -> str:
    """The installed version, or the source tree's."""
    from importlib import metadata  # slow to load, and only this wants it

    try:
        return metadata.version("cuzk-top")
    except metadata.PackageNotFoundError:
        return "0 (source tree)"


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal. (Asked for the width, argparse loads compression modules to learn it.)"""

    def __init__(self, prog: str) -> None:
        try:
            columns = os.get_terminal_size().columns
        except OSError:
            columns = 80
        super().__init__(prog, width=max(40, columns - 2))


class _Parser(argparse.ArgumentParser):
    """Errors in the product's one-line form."""

    def error(self, message: str) -> None:  # type: ignore[override]
        start, _, rest = message.partition(": ")
        words = rest.split() if start == "unrecognized arguments" and self.prog == "cuzk-top" else []
        late = next((word for word in words if word in COMMANDS), None)
        if late is not None:
            self.exit(2, f"cuzk-top: command is not first: {late}: write cuzk-top {late} OPTIONS\n")
        self.exit(2, f"cuzk-top: {message}: {self.prog}: see {self.prog} --help\n")


class _VersionAction(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *rest: object) -> None:
        print(f"cuzk-top {version()}")
        parser.exit()


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="auto", metavar="auto|cuda|cuda:N|host", help="where to prove")
    parser.add_argument("--config", metavar="PATH", help="configuration file")
    parser.add_argument("--set", dest="knobs", action="append", default=[], metavar="KNOB=VALUE", help="set a knob")
    parser.add_argument("--json", action="store_true", help="machine-readable on stdout, nothing else there")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="more detail in the log")
    parser.add_argument("--version", action=_VersionAction, nargs=0, help="show the version and exit")


def build_parser(command: str | None) -> argparse.ArgumentParser:
    """The parser of one command, or of the console (``None``)."""
    module = importlib.import_module(f"console.commands.{command}" if command else _CONSOLE)
    if command:
        parser = _Parser(prog=f"cuzk-top {command}", description=COMMANDS[command], formatter_class=_Formatter)
    else:
        listing = "\n".join(f"  {name:<10} {text}" for name, text in COMMANDS.items())
        parser = _Parser(
            prog="cuzk-top",
            description="The console of a Groth16 proving box.",
            epilog=f"commands (cuzk-top COMMAND --help):\n{listing}",
            formatter_class=_Formatter,
        )
    _common(parser)
    module.configure(parser)
    parser.set_defaults(run=module.run)
    return parser


def find_command(arguments: list[str]) -> tuple[str | None, list[str]]:
    """The command and the other arguments. Only options that all commands share may stand before it: where there are
    others, the arguments are the console's."""
    at = 0
    while at < len(arguments) and arguments[at].partition("=")[0] in COMMON:
        at += 2 if arguments[at] in COMMON_VALUED else 1
    if at < len(arguments) and arguments[at] in COMMANDS:
        return arguments[at], [*arguments[:at], *arguments[at + 1 :]]
    return None, arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``cuzk-top`` and return its exit code."""
    _open_what_is_closed()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:  # loads nothing else
        print(f"cuzk-top {version()}")
        return 0
    command, arguments = find_command(arguments)
    if command is None and arguments and not arguments[0].startswith("-"):
        from prover.formats.errors import printable

        print(f"cuzk-top: unknown command: {printable(arguments[0])}: see cuzk-top --help", file=sys.stderr)
        return 2
    brief = argv is None and command in BRIEF
    if brief:
        gc.disable()
    args = build_parser(command).parse_args(arguments)
    try:
        if args.config is not None and command not in READ_CONFIGURATION:
            from console.settings import config_path, read_configuration

            read_configuration(config_path(args.config), required=True)
        if args.device != "auto":
            from prover.device import check_spec

            check_spec(args.device)
        code = int(args.run(args))
        sys.stdout.flush()
        return code
    except ProverError as error:
        from prover.formats.errors import printable

        print(f"cuzk-top: {printable(str(error), 4000)}", file=sys.stderr)  # one line, whatever was typed
        return error.exit_code
    except KeyboardInterrupt:
        print("cuzk-top: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _abandon_stdout()
        return READER_GONE
    except Exception as error:  # noqa: BLE001 - the last line of defence: a report instead of a traceback
        if isinstance(error, OSError) and error.errno in _NO_ROOM and error.filename is None:
            from prover.formats.errors import WriteError

            _abandon_stdout()
            failure = WriteError("standard output", error)
            print(f"cuzk-top: {failure}", file=sys.stderr)
            return failure.exit_code
        from console import crash_report  # only where it is needed

        return crash_report.write(error, [*([command] if command else []), *arguments])
    finally:
        if brief:
            gc.freeze()  # so that nothing is searched for garbage on the way out


def _open_what_is_closed() -> None:
    """A stream that the caller closed (``>&-``) is one that nobody wants to read. Its number must be taken, or the next
    file that is opened gets it."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - stays open


def _abandon_stdout() -> None:
    """Let what is still buffered go nowhere, or the interpreter would try again on its way out, and complain."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def print_json(document: object) -> None:
    """Write one JSON document to stdout."""
    import json

    json.dump(document, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    sys.exit(main())
