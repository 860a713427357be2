"""The section [storage]: what is kept, where, how much; and what cannot be used is one line."""

from pathlib import Path

import pytest

from console.storage import Storage, read_storage_section, with_journal
from prover.errors import InputError


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def read(config: Path, text: str) -> Storage:
    config.write_text(text)
    return read_storage_section(config, required=True)


def test_without_a_word_it_is_kept_in_the_state_folder(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    journal = read(config, "").open()
    assert journal is not None and journal.close()
    assert journal.path == tmp_path / "cuzk-top" / "journal.sqlite3" and journal.path.exists()


def test_every_entry_acts(config: Path, tmp_path: Path):
    path = tmp_path / "kept" / "here.sqlite3"
    text = f'[storage]\npath = "{path}"\njobs = 500\ntimings = 7000\nknob_changes = 80\ndays = 9\nmegabytes = 32\n'
    journal = read(config, text).open()
    assert journal is not None and journal.close()
    keep = journal.keep
    assert (keep.jobs, keep.timings, keep.knob_changes, keep.days, keep.nbytes) == (500, 7000, 80, 9, 32 << 20)
    assert path.exists()
    assert read(config, "[storage]\njournal = false\n").open() is None


def test_the_option_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    said = Storage(journal=False, path=Path("/elsewhere"))
    assert with_journal(said, None) is said
    assert with_journal(said, "j.sqlite3") == Storage(path=tmp_path / "j.sqlite3")
    assert not with_journal(Storage(), "none").journal
    assert with_journal(Storage(), "~/j").path == Path("~/j").expanduser()


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("journal = 1", "storage.journal"),
        ("path = 1", "storage.path"),
        ('path = ""', "storage.path"),
        ('path = "/"', "storage.path"),
        ('path = "~nobody-of-this-name/j"', "storage.path"),
        ("jobs = 99", "from 100 to"),
        ("jobs = true", "storage.jobs"),
        ("days = 0.5", "storage.days"),
        ("megabytes = -1", "storage.megabytes"),
        (
            "size = 1",
            "days, megabytes, record, recording_megabytes, recordings_kept exist",
        ),
    ],
)
def test_what_cannot_be_used_is_one_line(config: Path, entry: str, told: str):
    with pytest.raises(InputError) as caught:
        read(config, f"[storage]\n{entry}\n")
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_a_section_that_is_none(config: Path):
    with pytest.raises(InputError, match=r"write \[storage\]"):
        read(config, "storage = 1\n")
