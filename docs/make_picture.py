"""Makes ``docs/console.svg``: the console itself, drawn while it proves. Usage: python docs/make_picture.py [SECONDS].

Nothing in the picture is drawn by hand: the application runs without a terminal on the built-in workload, knobs are
turned on the way, and Textual exports what is on screen.
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from console.app import ConsoleApp
from console.feeds.builtin import BuiltinWorkload, starter
from console.feeds.engine import EngineFeed
from console.feeds.host import HostSampler
from console.feeds.hosted import HostedEngine
from console.settings import ConsoleSettings, state_folder
from console.theming import read_themes
from prover.pipeline.knobs import KnobSet
from prover.pipeline.log import LogFile

TARGET = Path(__file__).with_name("console.svg")
SIZE = (120, 40)


async def picture(seconds: float) -> str:
    """Run the console for so long and export its screen."""
    log = LogFile(state_folder() / "logs")
    workload = BuiltinWorkload()
    engine = HostedEngine(starter(workload, KnobSet(), log), workload.subject)
    feed = EngineFeed(engine, log_path=log.path, log_name=log.path.name, sampler=HostSampler())
    themes, _ = read_themes()
    app = ConsoleApp(feed, ConsoleSettings(), themes)
    async with app.run_test(size=SIZE) as pilot:
        while not feed.ready:
            if feed.failure is not None:
                raise feed.failure
            await pilot.pause(0.2)
        await pilot.pause(seconds * 0.4)
        await pilot.press("p")  # a gap with its cause, for the lane
        await pilot.pause(seconds * 0.08)
        await pilot.press("p")
        await pilot.pause(seconds * 0.2)
        await pilot.press("k", "down", "down", "left")
        await pilot.pause(seconds * 0.32)
        svg = app.export_screenshot(title="cuzk-top")
    feed.stop(5.0)
    # The reader's own monospaced font, not one fetched from elsewhere.
    svg = re.sub(r"@font-face\s*\{.*?\}", "", svg, flags=re.DOTALL)
    return svg.replace("Fira Code", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono")


if __name__ == "__main__":
    TARGET.write_text(asyncio.run(picture(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)), encoding="utf-8")
    sys.stdout.write(f"{TARGET}\n")
