"""Where a session is recorded: in the file that was named, or in the state folder if the configuration says so."""

from __future__ import annotations

from pathlib import Path

from console.feeds.interfaces import GpuSource
from console.recording.recorder import Recorder, Samples, Source, description
from console.settings import state_folder
from console.storage import Storage
from prover.errors import InputError

_NAMES = 100


def begin(
    option: str | None,
    storage: Storage,
    source: Source,
    wall_offset_s: float,
    *,
    machine: Samples | None = None,
    gpus: GpuSource | None = None,
    simulated: bool = False,
) -> Recorder | None:
    """The recorder of a session, ``None`` where none is asked for.

    Raises:
        InputError, MachineLacks: if nothing can be written there.
    """
    if option is None and not storage.record:
        return None
    from console.cli import version

    document = description(
        wall_offset_s, simulated=simulated, version=version(), machine="model" if simulated else "host"
    )

    def at(path: Path) -> Recorder:
        return Recorder(
            path,
            source,
            document,
            machine=machine,
            gpus=gpus,
            limit=storage.recording_megabytes << 20,
            kept=storage.recordings_kept,
        )

    if option is not None:
        path = Path(option)
        if path.is_dir() or not path.name:
            raise InputError("a recording is a file", f"--record {option[:60]}", "name one, as night.rec")
        return at(path.absolute())
    folder = state_folder() / "recordings"
    for number in range(1, _NAMES):
        try:
            return at(folder / ("session.rec" if number == 1 else f"session-{number}.rec"))
        except InputError:  # another process writes there, or it is none of ours
            continue
    raise InputError("no name is free for a recording", str(folder), "tidy up, or set storage.record = false")
